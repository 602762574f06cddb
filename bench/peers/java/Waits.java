/**
 * A histogram of wait times with 32 equal steps per power of two.
 *
 * <p>One per thread; its large array keeps writes of different threads on different cache lines.
 */
final class Waits {
    private static final int STEPS = 32;

    private final long[] buckets = new long[60 * STEPS];
    private long longest;

    void record(long value) {
        ++buckets[bucketOf(value)];
        if (value > longest) longest = value;
    }

    void add(Waits other) {
        for (int i = 0; i < buckets.length; ++i) buckets[i] += other.buckets[i];
        longest = Math.max(longest, other.longest);
    }

    long count() {
        long all = 0;
        for (long n : buckets) all += n;
        return all;
    }

    long longest() { return longest; }

    /** The value that a `share` of all waits do not exceed, rounded up to the resolution. */
    long quantile(double share) {
        long rank = (long) (share * count());
        long seen = 0;
        for (int i = 0; i < buckets.length; ++i) {
            seen += buckets[i];
            if (seen > rank) return Math.min(upperEnd(i), longest);
        }
        return longest;
    }

    // Bucket = exponent * steps + the five bits below the leading one; small values are exact.
    private static int bucketOf(long value) {
        if (value < STEPS) return (int) value;
        int shift = 58 - Long.numberOfLeadingZeros(value);
        return shift * STEPS + (int) (value >> shift);
    }

    private static long upperEnd(int bucket) {
        if (bucket < 2 * STEPS) return bucket;
        int shift = bucket / STEPS - 1;
        return ((bucket % STEPS + STEPS + 1L) << shift) - 1;
    }
}
