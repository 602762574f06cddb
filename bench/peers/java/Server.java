import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.concurrent.ThreadLocalRandom;

/** The PostgreSQL of w6. */
record Server(String host, int port, String database, String user, String password) {
    static final String QUERY = "select balance from account where id = ?";
    private static final int ACCOUNTS = 10_000;

    /**
     * Makes the driver prepare a statement at its first use instead of the fifth, and limits the
     * time to connect.
     */
    String url() {
        return "jdbc:postgresql://" + host + ":" + port + "/" + database
                + "?prepareThreshold=1&loginTimeout=10";
    }

    static void askForOne(PreparedStatement statement) throws SQLException {
        statement.setInt(1, ThreadLocalRandom.current().nextInt(1, ACCOUNTS + 1));
        try (ResultSet found = statement.executeQuery()) {
            if (!found.next()) throw new SQLException("an account is missing");
            found.getLong(1);
        }
    }
}
