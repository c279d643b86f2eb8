import io.debezium.embedded.Connect;
import io.debezium.engine.ChangeEvent;
import io.debezium.engine.DebeziumEngine;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.Properties;
import org.apache.kafka.connect.header.Header;
import org.apache.kafka.connect.source.SourceRecord;

/** Runs Debezium's engine with the settings NAME=VALUE, and prints a line for each record that it routes. */
class Debezium {
    public static void main(String[] arguments) {
        Properties settings = new Properties();
        for (String argument : arguments) {
            String[] parts = argument.split("=", 2);
            settings.setProperty(parts[0], parts[1]);
        }
        DebeziumEngine.create(Connect.class)
            .using(settings)
            .notifying((records, committer) -> {
                for (ChangeEvent<SourceRecord, SourceRecord> event : records) {
                    System.out.println(line(event.value()));
                    committer.markProcessed(event);
                }
                System.out.flush();
                committer.markBatchFinished();
            })
            .using((success, message, error) -> {
                if (!success) {
                    System.err.println(message);
                    if (error != null) {
                        error.printStackTrace();
                    }
                    System.exit(1);
                }
            })
            .build()
            .run();
    }

    /** Topic, key and payload, then each header; apart by tabs, and bytes as hexadecimal digits. */
    private static String line(SourceRecord record) {
        StringBuilder line = new StringBuilder(record.topic());
        line.append('\t').append(record.key()).append('\t').append(text(record.value()));
        for (Header header : record.headers()) {
            line.append('\t').append(header.key()).append('=').append(header.value());
        }
        return line.toString();
    }

    private static String text(Object value) {
        if (value == null) {
            return "-";
        }
        if (value instanceof byte[] bytes) {
            return HexFormat.of().formatHex(bytes);
        }
        if (value instanceof ByteBuffer buffer) {
            byte[] bytes = new byte[buffer.remaining()];
            buffer.duplicate().get(bytes);
            return HexFormat.of().formatHex(bytes);
        }
        return text(value.toString().getBytes(StandardCharsets.UTF_8));
    }
}
