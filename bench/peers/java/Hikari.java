import com.zaxxer.hikari.HikariConfig;
import com.zaxxer.hikari.HikariDataSource;
import java.io.IOException;
import java.io.PrintWriter;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.sql.SQLTransientConnectionException;
import java.time.Duration;
import java.util.concurrent.TimeoutException;
import java.util.function.Consumer;
import java.util.logging.Logger;
import javax.sql.DataSource;

/** HikariCP. */
final class Hikari implements Library {
    @Override public String name() { return "HikariCP"; }

    @Override public String version() throws IOException {
        return Library.mavenVersion(HikariDataSource.class, "com.zaxxer/HikariCP");
    }

    @Override public Pool<?> ofCounters(int size, Duration timeout, Consumer<Counter> made)
            throws Exception {
        HikariConfig config = new HikariConfig();
        config.setDataSource(new StubSource(made));
        if (!timeout.isZero()) config.setConnectionTimeout(timeout.toMillis());
        return open(config, size, connection -> ++connection.unwrap(Counter.class).value);
    }

    @Override public Pool<?> ofAccounts(int size, Server server) throws Exception {
        HikariConfig config = new HikariConfig();
        config.setJdbcUrl(server.url());
        config.setUsername(server.user());
        config.setPassword(server.password());
        return open(config, size, connection -> {
            try (PreparedStatement statement = connection.prepareStatement(Server.QUERY)) {
                Server.askForOne(statement);
            }
        });
    }

    @Override public Duration shortestTimeout() { return Duration.ofMillis(250); }

    @Override public boolean isRefusal(Exception e) {
        return e instanceof SQLTransientConnectionException;
    }

    private interface Use {
        void of(Connection connection) throws SQLException;
    }

    private static Pool<?> open(HikariConfig config, int size, Use use) throws Exception {
        config.setMaximumPoolSize(size);
        HikariDataSource source = new HikariDataSource(config);
        try {
            waitUntilFull(source, size);
        } catch (Exception e) {
            source.close();
            throw e;
        }
        return new Pool<Connection>() {
            @Override public Connection acquire() throws SQLException {
                return source.getConnection();
            }
            @Override public void use(Connection lease) throws SQLException { use.of(lease); }
            @Override public void release(Connection lease) throws SQLException { lease.close(); }
            @Override public void close() { source.close(); }
        };
    }

    /** A thread of the pool opens all but the first connection. */
    private static void waitUntilFull(HikariDataSource source, int size) throws Exception {
        long deadline = System.nanoTime() + Duration.ofSeconds(30).toNanos();
        while (source.getHikariPoolMXBean().getIdleConnections() < size) {
            if (System.nanoTime() > deadline) {
                throw new TimeoutException("HikariCP did not open all connections in time");
            }
            Thread.sleep(1);
        }
    }

    /** Creates the stubs for HikariCP. */
    private record StubSource(Consumer<Counter> made) implements DataSource {
        @Override public Connection getConnection() {
            StubConnection opened = new StubConnection();
            made.accept(opened);
            return opened;
        }
        @Override public Connection getConnection(String user, String password) {
            return getConnection();
        }
        @Override public PrintWriter getLogWriter() { return null; }
        @Override public void setLogWriter(PrintWriter out) {}
        @Override public int getLoginTimeout() { return 0; }
        @Override public void setLoginTimeout(int seconds) {}
        @Override public Logger getParentLogger() { return Logger.getGlobal(); }
        @Override public <T> T unwrap(Class<T> type) throws SQLException {
            throw new SQLException("nothing to unwrap");
        }
        @Override public boolean isWrapperFor(Class<?> type) { return false; }
    }
}
