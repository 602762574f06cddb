/** A pool with all resources open; L is the type of a lease. */
interface Pool<L> extends AutoCloseable {
    L acquire() throws Exception;

    /** Increments a counter, or runs a query. */
    void use(L lease) throws Exception;

    void release(L lease) throws Exception;

    @Override void close();
}
