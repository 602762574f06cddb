import java.sql.Array;
import java.sql.Blob;
import java.sql.CallableStatement;
import java.sql.Clob;
import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.NClob;
import java.sql.PreparedStatement;
import java.sql.SQLWarning;
import java.sql.SQLXML;
import java.sql.Savepoint;
import java.sql.Statement;
import java.sql.Struct;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.Executor;

/**
 * A counter with the interface of a connection, for pools that support only JDBC.
 *
 * <p>Not a java.lang.reflect.Proxy: HikariCP calls clearWarnings() at each release, and a proxy
 * would cost more than the pool. The first methods are called by HikariCP, the others never.
 */
final class StubConnection extends Counter implements Connection {
    @Override public void clearWarnings() {}
    @Override public boolean isValid(int timeout) { return true; }
    @Override public boolean isClosed() { return false; }
    @Override public void close() {}
    @Override public void abort(Executor executor) {}
    @Override public boolean getAutoCommit() { return true; }
    @Override public void setAutoCommit(boolean autoCommit) {}
    @Override public boolean isReadOnly() { return false; }
    @Override public void setReadOnly(boolean readOnly) {}
    @Override public int getTransactionIsolation() { return TRANSACTION_READ_COMMITTED; }
    @Override public int getNetworkTimeout() { return 0; }
    @Override public void setNetworkTimeout(Executor executor, int milliseconds) {}

    @Override public void commit() { throw no(); }
    @Override public void rollback() { throw no(); }
    @Override public void rollback(Savepoint to) { throw no(); }
    @Override public Savepoint setSavepoint() { throw no(); }
    @Override public Savepoint setSavepoint(String name) { throw no(); }
    @Override public void releaseSavepoint(Savepoint savepoint) { throw no(); }
    @Override public Statement createStatement() { throw no(); }
    @Override public Statement createStatement(int type, int concurrency) { throw no(); }
    @Override public Statement createStatement(int type, int concurrency, int hold) { throw no(); }
    @Override public PreparedStatement prepareStatement(String sql) { throw no(); }
    @Override public PreparedStatement prepareStatement(String sql, int keys) { throw no(); }
    @Override public PreparedStatement prepareStatement(String sql, int[] columns) { throw no(); }
    @Override public PreparedStatement prepareStatement(String sql, String[] names) { throw no(); }
    @Override public PreparedStatement prepareStatement(String sql, int t, int c) { throw no(); }
    @Override public PreparedStatement prepareStatement(String sql, int t, int c, int h) {
        throw no();
    }
    @Override public CallableStatement prepareCall(String sql) { throw no(); }
    @Override public CallableStatement prepareCall(String sql, int t, int c) { throw no(); }
    @Override public CallableStatement prepareCall(String sql, int t, int c, int h) { throw no(); }
    @Override public String nativeSQL(String sql) { throw no(); }
    @Override public DatabaseMetaData getMetaData() { throw no(); }
    @Override public String getCatalog() { throw no(); }
    @Override public void setCatalog(String catalog) { throw no(); }
    @Override public String getSchema() { throw no(); }
    @Override public void setSchema(String schema) { throw no(); }
    @Override public void setTransactionIsolation(int level) { throw no(); }
    @Override public SQLWarning getWarnings() { throw no(); }
    @Override public Map<String, Class<?>> getTypeMap() { throw no(); }
    @Override public void setTypeMap(Map<String, Class<?>> map) { throw no(); }
    @Override public int getHoldability() { throw no(); }
    @Override public void setHoldability(int holdability) { throw no(); }
    @Override public Clob createClob() { throw no(); }
    @Override public Blob createBlob() { throw no(); }
    @Override public NClob createNClob() { throw no(); }
    @Override public SQLXML createSQLXML() { throw no(); }
    @Override public Array createArrayOf(String type, Object[] elements) { throw no(); }
    @Override public Struct createStruct(String type, Object[] attributes) { throw no(); }
    @Override public Properties getClientInfo() { throw no(); }
    @Override public String getClientInfo(String name) { throw no(); }
    @Override public void setClientInfo(Properties properties) { throw no(); }
    @Override public void setClientInfo(String name, String value) { throw no(); }
    @Override public <T> T unwrap(Class<T> type) { throw no(); }
    @Override public boolean isWrapperFor(Class<?> type) { return false; }

    private static UnsupportedOperationException no() {
        return new UnsupportedOperationException("a stub of a connection");
    }
}
