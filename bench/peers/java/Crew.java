import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicReference;

/** Threads that start together, work until they are told to stop, and are waited for. */
final class Crew {
    interface Work {
        void run(int index, Crew crew) throws Exception;
    }

    /** How much longer than it should a crew may take before it is given up. */
    private static final Duration GRACE = Duration.ofSeconds(30);

    private final CountDownLatch ready;
    private final CountDownLatch begin = new CountDownLatch(1);
    private final CountDownLatch ended;
    private final CountDownLatch dismissed = new CountDownLatch(1);
    private final AtomicReference<Throwable> failure = new AtomicReference<>();
    private final List<Thread> threads = new ArrayList<>();
    private volatile boolean stopped;

    boolean stopped() { return stopped; }

    /** Lets so many threads work for a while; a stack size of 0 is the default. */
    static Stopwatch.Reading work(int count, double seconds, Work work) throws Exception {
        Crew crew = new Crew(count, 0, work);
        try {
            Stopwatch watch = new Stopwatch();
            crew.begin.countDown();
            TimeUnit.NANOSECONDS.sleep((long) (seconds * 1e9));
            crew.stopped = true;
            Stopwatch.Reading reading = watch.read();
            crew.awaitEnd(Duration.ZERO);
            return reading;
        } finally {
            crew.dismiss();
        }
    }

    /** Lets each of so many threads do its work once, which takes about so long. */
    static Stopwatch.Reading once(int count, long stackSize, Duration expected, Work work)
            throws Exception {
        Crew crew = new Crew(count, stackSize, work);
        try {
            Stopwatch watch = new Stopwatch();
            crew.begin.countDown();
            crew.awaitEnd(expected);
            return watch.read();
        } finally {
            crew.dismiss();
        }
    }

    private Crew(int count, long stackSize, Work work) throws InterruptedException {
        ready = new CountDownLatch(count);
        ended = new CountDownLatch(count);
        try {
            for (int i = 0; i < count; ++i) {
                int index = i;
                Thread t = new Thread(null, () -> live(index, work), "worker-" + i, stackSize);
                t.setDaemon(true);
                t.start();
                threads.add(t);
            }
        } catch (Throwable e) {  // there may be no room for another thread
            failure.set(e);
            begin.countDown();
            dismissed.countDown();
            joinAll();
            throw e;
        }
        ready.await();
    }

    private void live(int index, Work work) {
        try {
            ready.countDown();
            begin.await();
            if (failure.get() == null) work.run(index, this);
        } catch (Throwable e) {
            failure.compareAndSet(null, e);
            stopped = true;
        }
        ended.countDown();
        // The end of a Java thread costs more, the more of them there are, and is not measured.
        try {
            dismissed.await();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    private void awaitEnd(Duration expected) throws Exception {
        boolean inTime = ended.await(expected.plus(GRACE).toMillis(), TimeUnit.MILLISECONDS);
        Throwable failed = failure.get();
        if (failed instanceof Exception e) throw e;
        if (failed instanceof Error e) throw e;
        if (!inTime) throw new TimeoutException("threads do not end");
    }

    private void dismiss() throws InterruptedException {
        dismissed.countDown();
        if (ended.getCount() == 0) joinAll();
    }

    /** Threads that are about to end would disturb what is measured next. */
    private void joinAll() throws InterruptedException {
        for (Thread t : threads) t.join();
    }
}
