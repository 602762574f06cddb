/** The resource of all workloads without a server. */
class Counter {
    long value;
}
