import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.Executors;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Payments that happen once: key, payment and answer are committed together.
 *
 * <pre>java -cp postgresql.jar:. Payments jdbc:postgresql://host/database?user=user [port]</pre>
 *
 * Needs the JDBC driver, the schema that `semel migrate` makes, and the table of ../schema.sql.
 */
public final class Payments {
    private static final String OPERATION = "payments.create";
    private static final int CONNECTIONS = 8;
    private static final int ATTEMPTS = 5;
    private static final Set<String> LOST_RACE = Set.of("40001", "40P01");

    record Header(String name, String value) {}

    record Pointer(String kind, String id) {}

    record Answer(int status, List<Header> headers, byte[] body, Pointer pointer) {}

    /**
     * Changes rows of this database and calls nobody else: it runs inside the transaction, perhaps
     * several times before one commit counts.
     */
    interface Work {
        Answer run(Connection connection) throws SQLException;
    }

    /** Runs `work` once for this key, and returns what it answered then. */
    static Answer once(Connection connection, String tenant, String key, byte[] content, Work work)
            throws SQLException {
        for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
            try {
                connection.setAutoCommit(false);
                Answer answer = inTransaction(connection, tenant, key, content, work);
                connection.commit();
                return answer;
            } catch (SQLException | RuntimeException error) {
                rollback(connection);
                boolean lost = error instanceof SQLException sql && LOST_RACE.contains(sql.getSQLState());
                if (!lost) {
                    throw error;
                }
                // Another transaction was first: claim anew, in a new transaction.
            }
        }
        return problem(503, "busy: retry with the same key", new Header("retry-after", "1"));
    }

    private static Answer inTransaction(
            Connection connection, String tenant, String key, byte[] content, Work work)
            throws SQLException {
        String permit;
        try (PreparedStatement claim =
                connection.prepareStatement("SELECT * FROM semel.claim(?, ?, ?, ?)")) {
            claim.setString(1, tenant);
            claim.setString(2, OPERATION);
            claim.setString(3, key);
            claim.setBytes(4, content);
            try (ResultSet row = claim.executeQuery()) {
                row.next();
                if (!row.getString("decision").equals("run")) {
                    Answer answer = refused(row);
                    connection.rollback();
                    return answer;
                }
                permit = row.getString("permit");
            }
        }
        Answer answer = work.run(connection);
        try (PreparedStatement complete = connection.prepareStatement(
                "SELECT semel.complete(?, ?, ?, ?, ?::jsonb, ?, ?, ?)")) {
            complete.setString(1, permit);
            complete.setString(2, tenant);
            complete.setString(3, OPERATION);
            complete.setInt(4, answer.status());
            complete.setString(5, json(answer.headers()));
            complete.setBytes(6, answer.body());
            complete.setString(7, answer.pointer().kind());
            complete.setString(8, answer.pointer().id());
            complete.execute();
        }
        return answer;
    }

    /** Answers a request that must not run. */
    private static Answer refused(ResultSet claim) throws SQLException {
        String decision = claim.getString("decision");
        switch (decision) {
            case "replay":
                List<Header> headers = headers(claim.getString("headers"));
                headers.add(new Header("idempotent-replayed", "true"));
                byte[] body = claim.getBytes("body");
                return new Answer(
                        claim.getInt("status"), headers, body == null ? new byte[0] : body, null);
            case "in-progress":
                String wait = claim.getString("retry_after");
                return problem(
                        409, "in progress: retry with the same key", new Header("retry-after", wait));
            case "mismatch":
                return problem(422, "the key was used for something else");
            default:
                return problem(409, decision + ": do not use a new key");
        }
    }

    private static void rollback(Connection connection) {
        try {
            connection.rollback();
        } catch (SQLException broken) {
            // The connection is gone, and the transaction with it.
        }
    }

    private static Answer problem(int status, String title, Header... more) {
        List<Header> headers = new ArrayList<>(List.of(more));
        headers.add(new Header("content-type", "application/problem+json"));
        String body = "{\"status\": " + status + ", \"title\": \"" + title + "\"}";
        return new Answer(status, headers, body.getBytes(StandardCharsets.UTF_8), null);
    }

    // The two are for headers without quotes and backslashes; take the JSON library that you have.

    private static String json(List<Header> headers) {
        List<String> pairs = new ArrayList<>();
        for (Header header : headers) {
            pairs.add("[\"" + header.name() + "\", \"" + header.value() + "\"]");
        }
        return "[" + String.join(", ", pairs) + "]";
    }

    private static List<Header> headers(String json) {
        List<Header> headers = new ArrayList<>();
        Matcher pair = Pattern.compile("\\[\"([^\"]*)\", \"([^\"]*)\"\\]").matcher(json);
        while (pair.find()) {
            headers.add(new Header(pair.group(1), pair.group(2)));
        }
        return headers;
    }

    /** The work itself: it knows nothing of keys. */
    static Answer createPayment(Connection connection, String tenant, byte[] content)
            throws SQLException {
        String text = new String(content, StandardCharsets.UTF_8);
        Matcher cents = Pattern.compile("\"cents\"\\s*:\\s*(\\d{1,15})").matcher(text);
        if (!cents.find()) {
            throw new IllegalArgumentException("that is no payment");
        }
        try (PreparedStatement insert = connection.prepareStatement(
                "INSERT INTO payment (tenant, cents) VALUES (?, ?) RETURNING id")) {
            insert.setString(1, tenant);
            insert.setLong(2, Long.parseLong(cents.group(1)));
            try (ResultSet row = insert.executeQuery()) {
                row.next();
                long id = row.getLong(1);
                List<Header> headers = List.of(
                        new Header("content-type", "application/json"),
                        new Header("location", "/payments/" + id));
                String body = "{\"id\": " + id + ", \"cents\": " + cents.group(1) + "}";
                return new Answer(
                        201, headers, body.getBytes(StandardCharsets.UTF_8),
                        new Pointer("payment", Long.toString(id)));
            }
        }
    }

    private static Answer pay(HttpExchange exchange, BlockingQueue<Connection> connections, String url)
            throws IOException, InterruptedException {
        String tenant = "acme"; // yours comes from the authenticated caller
        byte[] content = exchange.getRequestBody().readAllBytes();
        String key = exchange.getRequestHeaders().getFirst("idempotency-key");
        if (key == null) {
            return problem(400, "idempotency-key is missing");
        }
        Connection connection = connections.take();
        try {
            if (connection.isClosed()) {
                connection = DriverManager.getConnection(url);
            }
            return once(
                    connection, tenant, key, content, inside -> createPayment(inside, tenant, content));
        } catch (IllegalArgumentException error) {
            return problem(400, "that is no payment");
        } catch (SQLException error) {
            String state = String.valueOf(error.getSQLState());
            // SM007: the key has a character that a key cannot have. 22 and 23: that is no payment.
            if (state.equals("SM007") || state.startsWith("22") || state.startsWith("23")) {
                return problem(400, "that is no payment, or no key");
            }
            // The commit may have gone through: the same key tells.
            return problem(503, "retry with the same key", new Header("retry-after", "1"));
        } finally {
            connections.put(connection);
        }
    }

    public static void main(String[] arguments) throws Exception {
        String url = arguments[0];
        int port = arguments.length > 1 ? Integer.parseInt(arguments[1]) : 8080;
        BlockingQueue<Connection> connections = new ArrayBlockingQueue<>(CONNECTIONS);
        for (int number = 0; number < CONNECTIONS; number++) {
            connections.put(DriverManager.getConnection(url));
        }
        InetAddress loopback = InetAddress.getByName("127.0.0.1");
        HttpServer server = HttpServer.create(new InetSocketAddress(loopback, port), 0);
        server.setExecutor(Executors.newCachedThreadPool());
        server.createContext("/payments", exchange -> {
            try (exchange) {
                Answer answer = pay(exchange, connections, url);
                for (Header header : answer.headers()) {
                    exchange.getResponseHeaders().add(header.name(), header.value());
                }
                int length = answer.body().length == 0 ? -1 : answer.body().length;
                exchange.sendResponseHeaders(answer.status(), length);
                if (length > 0) {
                    exchange.getResponseBody().write(answer.body());
                }
            } catch (InterruptedException ended) {
                Thread.currentThread().interrupt();
            }
        });
        server.start();
        System.out.println("listening on http://127.0.0.1:" + server.getAddress().getPort());
    }
}
