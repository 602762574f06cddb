import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicReference;

/** Threads that start and stop together. */
final class Workers {
    interface Work {
        void run(int index, Workers workers) throws Exception;
    }

    /** How much longer than expected the threads may take. */
    private static final Duration GRACE = Duration.ofSeconds(30);

    private final CountDownLatch ready;
    private final CountDownLatch begin = new CountDownLatch(1);
    private final CountDownLatch ended;
    private final CountDownLatch dismissed = new CountDownLatch(1);
    private final AtomicReference<Throwable> failure = new AtomicReference<>();
    private final List<Thread> threads = new ArrayList<>();
    private volatile boolean stopped;

    boolean stopped() { return stopped; }

    /** Runs the work on `count` threads, which stop after `seconds`. */
    static Stopwatch.Reading work(int count, double seconds, Work work) throws Exception {
        Workers workers = new Workers(count, 0, work);
        try {
            Stopwatch watch = new Stopwatch();
            workers.begin.countDown();
            TimeUnit.NANOSECONDS.sleep((long) (seconds * 1e9));
            workers.stopped = true;
            Stopwatch.Reading reading = watch.read();
            workers.awaitEnd(Duration.ZERO);
            return reading;
        } finally {
            workers.dismiss();
        }
    }

    /** Runs the work once on each thread; a stack size of 0 is the default. */
    static Stopwatch.Reading once(int count, long stackSize, Duration expected, Work work)
            throws Exception {
        Workers workers = new Workers(count, stackSize, work);
        try {
            Stopwatch watch = new Stopwatch();
            workers.begin.countDown();
            workers.awaitEnd(expected);
            return watch.read();
        } finally {
            workers.dismiss();
        }
    }

    private Workers(int count, long stackSize, Work work) throws InterruptedException {
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
        } catch (Throwable e) {  // too little memory for another thread
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
        // Ending a Java thread costs more the more threads there are, so it is not measured.
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
        if (!inTime) throw new TimeoutException("the threads did not end in time");
    }

    private void dismiss() throws InterruptedException {
        dismissed.countDown();
        if (ended.getCount() == 0) joinAll();
    }

    /** Ending threads would disturb the next measurement. */
    private void joinAll() throws InterruptedException {
        for (Thread t : threads) t.join();
    }
}
