import java.io.IOException;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.time.Duration;
import java.util.NoSuchElementException;
import java.util.function.Consumer;
import org.apache.commons.pool2.BasePooledObjectFactory;
import org.apache.commons.pool2.PooledObject;
import org.apache.commons.pool2.impl.DefaultPooledObject;
import org.apache.commons.pool2.impl.GenericObjectPool;
import org.apache.commons.pool2.impl.GenericObjectPoolConfig;

/** Apache Commons Pool. */
final class CommonsPool implements Library {
    @Override public String name() { return "commons-pool2"; }

    @Override public String version() throws IOException {
        return Library.mavenVersion(GenericObjectPool.class, "org.apache.commons/commons-pool2");
    }

    @Override public Pool<?> ofCounters(int size, Duration timeout, Consumer<Counter> made)
            throws Exception {
        Factory<Counter> factory = new Factory<>() {
            @Override public Counter create() {
                Counter opened = new Counter();
                made.accept(opened);
                return opened;
            }
        };
        return open(factory, size, timeout, counter -> ++counter.value);
    }

    @Override public Pool<?> ofAccounts(int size, Server server) throws Exception {
        Factory<Session> factory = new Factory<>() {
            @Override public Session create() throws SQLException {
                return Session.open(server);
            }
            @Override public void destroyObject(PooledObject<Session> pooled) throws SQLException {
                pooled.getObject().connection().close();
            }
        };
        return open(factory, size, Duration.ZERO, session -> Server.askForOne(session.balance()));
    }

    @Override public boolean isRefusal(Exception e) { return e instanceof NoSuchElementException; }

    /** A generic pool can keep a prepared statement with its connection. */
    private record Session(Connection connection, PreparedStatement balance) {
        static Session open(Server server) throws SQLException {
            Connection connection =
                    DriverManager.getConnection(server.url(), server.user(), server.password());
            return new Session(connection, connection.prepareStatement(Server.QUERY));
        }
    }

    private abstract static class Factory<T> extends BasePooledObjectFactory<T> {
        @Override public PooledObject<T> wrap(T opened) {
            return new DefaultPooledObject<>(opened);
        }
    }

    private interface Use<T> {
        void of(T resource) throws Exception;
    }

    private static <T> Pool<T> open(Factory<T> factory, int size, Duration timeout, Use<T> use)
            throws Exception {
        GenericObjectPoolConfig<T> config = new GenericObjectPoolConfig<>();
        config.setMaxTotal(size);
        config.setMaxIdle(size);  // more idle resources would be closed
        if (!timeout.isZero()) config.setMaxWait(timeout);
        GenericObjectPool<T> pool = new GenericObjectPool<>(factory, config);
        try {
            pool.addObjects(size);
        } catch (Exception e) {
            pool.close();
            throw e;
        }
        return new Pool<T>() {
            @Override public T acquire() throws Exception { return pool.borrowObject(); }
            @Override public void use(T lease) throws Exception { use.of(lease); }
            @Override public void release(T lease) { pool.returnObject(lease); }
            @Override public void close() { pool.close(); }
        };
    }
}
