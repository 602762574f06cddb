/** A pool with all its resources open; L is what a user has between acquire and release. */
interface Pool<L> extends AutoCloseable {
    L acquire() throws Exception;

    /** Adds one to a counter, or makes a query. */
    void use(L lease) throws Exception;

    void release(L lease) throws Exception;

    @Override void close();
}
