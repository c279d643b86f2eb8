import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;

/** What goes wrong through JDBC must be loud: java Misuse URL */
public final class Misuse {
    private static final String PAY = "INSERT INTO payment (tenant, cents) VALUES ('misuse', 1000)";

    private static String cell(Connection connection, String query) throws SQLException {
        try (Statement statement = connection.createStatement();
                ResultSet row = statement.executeQuery(query)) {
            row.next();
            return row.getString(1);
        }
    }

    private static String claim(Connection connection, String key, String options)
            throws SQLException {
        return cell(connection, "SELECT permit FROM semel.claim('acme', 'payments.create', '" + key
                + "', 'pay 10'" + options + ")");
    }

    private static void complete(Connection connection, String permit) throws SQLException {
        cell(connection, "SELECT semel.complete('" + permit + "', 'acme', 'payments.create', 201)");
    }

    private static void pay(Connection connection) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            statement.executeUpdate(PAY);
        }
    }

    interface Deed {
        void run(Connection connection) throws SQLException;
    }

    private static void fails(String url, String sqlstate, Deed deed) throws SQLException {
        try (Connection connection = DriverManager.getConnection(url)) {
            connection.setAutoCommit(false);
            deed.run(connection);
            throw new AssertionError("nothing was said of what should fail with " + sqlstate);
        } catch (SQLException error) {
            if (!sqlstate.equals(error.getSQLState())) {
                throw error;
            }
        }
        paid(url, "0");
    }

    private static void paid(String url, String count) throws SQLException {
        try (Connection connection = DriverManager.getConnection(url)) {
            String paid =
                    cell(connection, "SELECT count(*) FROM payment WHERE tenant = 'misuse'");
            if (!paid.equals(count)) {
                throw new AssertionError(paid + " payments instead of " + count);
            }
        }
    }

    public static void main(String[] arguments) throws SQLException {
        String url = arguments[0];
        String autosave = url + "&autosave=always";
        fails(url, "SM004", connection -> {
            claim(connection, "no-complete", "");
            pay(connection);
            connection.commit();
        });
        fails(url, "SM004", connection -> {
            connection.setAutoCommit(true);
            String permit = claim(connection, "autocommit", "");
            pay(connection);
            complete(connection, permit);
        });
        fails(autosave, "SM006", connection -> {
            pay(connection);
            claim(connection, "autosave", "");
        });
        fails(autosave, "SM004", connection -> {
            claim(connection, "autosave", ", in_savepoint => true");
            pay(connection);
            connection.commit();
        });
        try (Connection connection = DriverManager.getConnection(autosave)) {
            connection.setAutoCommit(false);
            String permit = claim(connection, "autosave", ", in_savepoint => true");
            pay(connection);
            complete(connection, permit);
            connection.commit();
        }
        paid(url, "1");
    }
}
