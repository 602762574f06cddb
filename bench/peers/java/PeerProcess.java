import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.LongSummaryStatistics;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.LongStream;
import java.util.stream.Stream;

/** A peer process for pools of Java. ../README.md has the protocol. */
public final class PeerProcess {
    private static final double WARM_UP_SECONDS = 1.5;
    private static final long SMALL_STACK = 128 * 1024;  // for threads that only wait

    private final Library library;
    private String warm = "";  // the kind of command that the compiler has optimized

    private PeerProcess(Library library) { this.library = library; }

    public static void main(String[] args) throws IOException {
        Library library = switch (args.length == 1 ? args[0] : "") {
            case "hikaricp" -> new Hikari();
            case "commons-pool2" -> new CommonsPool();
            default -> null;
        };
        if (library == null) {
            System.err.println("usage: java PeerProcess hikaricp|commons-pool2");
            System.exit(2);
        }
        PeerProcess peer = new PeerProcess(library);
        System.out.println("ready " + library.name() + " " + library.version());
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = in.readLine()) != null;) {
            System.out.print(peer.answer(line));
            System.out.println("done");
        }
        System.exit(0);  // ends the pools' threads, too
    }

    /** A command: its name, and its parameters by name. */
    private record Command(String name, Map<String, String> parameters) {
        static Command parse(String line) {
            String[] words = line.split(" ");
            Map<String, String> parameters = new HashMap<>();
            for (String one : words) {
                int equals = one.indexOf('=');
                if (equals > 0) parameters.put(one.substring(0, equals), one.substring(equals + 1));
            }
            return new Command(words[0], parameters);
        }

        String text(String name) {
            String value = parameters.get(name);
            if (value == null) throw new IllegalArgumentException(name + " is missing");
            return value;
        }
        int count(String name) { return Integer.parseInt(text(name)); }
        double seconds() { return Double.parseDouble(text("seconds")); }
    }

    /** The lines of an answer. */
    private static final class Answer {
        private final StringBuilder lines = new StringBuilder();

        Answer metric(double value, String unit, String name) {
            lines.append(String.format(Locale.ROOT, "metric %.4f %s %s%n", value, unit, name));
            return this;
        }
        Answer cores(Stopwatch.Reading of) {
            lines.append(String.format(Locale.ROOT, "cores %.2f%n", of.cores()));
            return this;
        }
        @Override public String toString() { return lines.toString(); }
    }

    private String answer(String line) {
        try {
            Command command = Command.parse(line);
            return switch (command.name()) {
                case "w1" -> warmed("w1", command.seconds(), s -> oneThread(command, s));
                case "w2" -> warmed("w2", command.seconds(), s -> manyThreads(command, s));
                case "w3" -> {
                    Hold hold = Hold.of(command.count("hold"), command.count("asleep") != 0);
                    yield warmed("w3 " + hold.kind(), command.seconds(),
                            s -> contended(command, hold, s));
                }
                case "w4", "w4-memory" ->
                    "declined " + library.name() + " has no asynchronous acquire\n";
                case "w5" -> warmed("w5", 0, s -> storm(command));
                case "w6" -> warmed("w6", command.seconds(), s -> queries(command, s));
                default -> "declined unknown command " + command.name() + "\n";
            };
        } catch (Throwable e) {  // too many threads are an Error
            return "failed " + e.toString().replaceAll("\\s+", " ") + "\n";
        }
    }

    private interface Measurement {
        Answer over(double seconds) throws Exception;
    }

    /**
     * Warms up whenever the kind of command changes, because another kind may have invalidated the
     * compiler's assumptions; then measures.
     */
    private String warmed(String kind, double seconds, Measurement measurement) throws Exception {
        if (!warm.equals(kind)) {
            long began = System.nanoTime();
            do {
                measurement.over(WARM_UP_SECONDS);
            } while (System.nanoTime() - began < WARM_UP_SECONDS * 1e9);
            warm = kind;
        }
        return measurement.over(seconds).toString();
    }

    /** The resources of a pool. */
    private static final class Counters {
        private final Queue<Counter> all = new ConcurrentLinkedQueue<>();

        void add(Counter made) { all.add(made); }

        /** Checks that neither the compiler nor a pool that leases twice has lost a cycle. */
        void check(long cycles) {
            long used = all.stream().mapToLong(c -> c.value).sum();
            if (used != cycles) {
                throw new IllegalStateException(cycles + " cycles, but " + used + " uses");
            }
        }
    }

    private static <L> void cycle(Pool<L> pool, int times) throws Exception {
        for (int i = 0; i < times; ++i) {
            L lease = pool.acquire();
            pool.use(lease);
            pool.release(lease);
        }
    }

    private Answer oneThread(Command command, double seconds) throws Exception {
        final int batches = 10;
        final int cyclesPerCheck = 1000;
        double[] nanoseconds = new double[batches];
        long all = 0;
        Counters counters = new Counters();
        try (Pool<?> pool =
                library.ofCounters(command.count("size"), Duration.ZERO, counters::add)) {
            Stopwatch watch = new Stopwatch();
            for (int i = 0; i < batches; ++i) {
                long cycles = 0;
                long began = System.nanoTime();
                long took;
                do {
                    cycle(pool, cyclesPerCheck);
                    cycles += cyclesPerCheck;
                    took = System.nanoTime() - began;
                } while (took < seconds / batches * 1e9);
                nanoseconds[i] = (double) took / cycles;
                all += cycles;
            }
            Stopwatch.Reading reading = watch.read();
            counters.check(all);
            Arrays.sort(nanoseconds);
            double median = (nanoseconds[batches / 2 - 1] + nanoseconds[batches / 2]) / 2;
            return new Answer().metric(median, "ns", "cycle").cores(reading);
        }
    }

    private Answer manyThreads(Command command, double seconds) throws Exception {
        final int cyclesPerCheck = 32;
        long[] served = new long[command.count("threads")];
        Counters counters = new Counters();
        try (Pool<?> pool =
                library.ofCounters(command.count("size"), Duration.ZERO, counters::add)) {
            Stopwatch.Reading reading = Workers.work(served.length, seconds, (index, workers) -> {
                long cycles = 0;
                for (; !workers.stopped(); cycles += cyclesPerCheck) cycle(pool, cyclesPerCheck);
                served[index] = cycles;
            });
            long all = LongStream.of(served).sum();
            counters.check(all);
            return new Answer().metric(all / reading.seconds() * 1e-6, "M/s", "cycles")
                    .cores(reading);
        }
    }

    /** How a thread uses a leased resource. */
    private record Hold(String kind, Runnable pause) {
        static Hold of(long microseconds, boolean asleep) {
            long nanoseconds = microseconds * 1000;
            if (nanoseconds == 0) return new Hold("not", () -> {});
            if (asleep) return new Hold("asleep", () -> sleep(nanoseconds));
            return new Hold("busy", () -> spin(nanoseconds));
        }

        /** Thread.sleep() has only milliseconds; a parked thread may wake too early. */
        private static void sleep(long nanoseconds) {
            long until = System.nanoTime() + nanoseconds;
            for (long left = nanoseconds; left > 0; left = until - System.nanoTime()) {
                LockSupport.parkNanos(left);
            }
        }

        private static void spin(long nanoseconds) {
            long began = System.nanoTime();
            while (System.nanoTime() - began < nanoseconds) {}
        }
    }

    /** Runs cycles with timed acquires until the workers are stopped. */
    private static <L> Waits timedCycles(Pool<L> pool, Runnable pause, Workers workers)
            throws Exception {
        Waits waits = new Waits();
        while (!workers.stopped()) {
            long began = System.nanoTime();
            L lease = pool.acquire();
            waits.record(System.nanoTime() - began);
            pool.use(lease);
            pause.run();
            pool.release(lease);
        }
        return waits;
    }

    private static Waits together(Waits[] each) {
        Waits all = new Waits();
        for (Waits one : each) all.add(one);
        return all;
    }

    /** The fewest cycles of a thread divided by the most. */
    private static double leastToMost(Waits[] each) {
        LongSummaryStatistics served =
                Stream.of(each).mapToLong(Waits::count).summaryStatistics();
        return (double) served.getMin() / Math.max(served.getMax(), 1);
    }

    private Answer contended(Command command, Hold hold, double seconds) throws Exception {
        Waits[] each = new Waits[command.count("threads")];
        Counters counters = new Counters();
        try (Pool<?> pool =
                library.ofCounters(command.count("size"), Duration.ZERO, counters::add)) {
            Stopwatch.Reading reading = Workers.work(each.length, seconds,
                    (index, workers) -> each[index] = timedCycles(pool, hold.pause(), workers));
            Waits all = together(each);
            counters.check(all.count());
            return new Answer()
                    .metric(all.count() / reading.seconds() * 1e-3, "k/s", "cycles")
                    .metric(all.quantile(0.5) * 1e-3, "us", "wait p50")
                    .metric(all.quantile(0.99) * 1e-3, "us", "wait p99")
                    .metric(all.quantile(0.999) * 1e-3, "us", "wait p99.9")
                    .metric(all.longest() * 1e-3, "us", "wait longest")
                    .metric(leastToMost(each), "-", "least/most")
                    .cores(reading);
        }
    }

    private Answer storm(Command command) throws Exception {
        Duration timeout = Duration.ofMillis(command.count("timeout"));
        if (timeout.compareTo(library.shortestTimeout()) < 0) {
            timeout = library.shortestTimeout();
        }
        try (Pool<?> pool = library.ofCounters(command.count("size"), timeout, made -> {})) {
            return refusals(pool, command.count("size"), command.count("tasks"), timeout);
        }
    }

    private <L> Answer refusals(Pool<L> pool, int size, int tasks, Duration timeout)
            throws Exception {
        List<L> taken = new ArrayList<>();
        for (int i = 0; i < size; ++i) taken.add(pool.acquire());
        long[] waited = new long[tasks];
        Stopwatch.Reading reading = Workers.once(tasks, SMALL_STACK, timeout, (index, workers) -> {
            long began = System.nanoTime();
            try {
                pool.acquire();
                throw new IllegalStateException("an exhausted pool leased a resource");
            } catch (Exception e) {
                if (!library.isRefusal(e)) throw e;
                waited[index] = System.nanoTime() - began;
            }
        });
        for (L lease : taken) pool.release(lease);
        long latest = LongStream.of(waited).max().orElseThrow() - timeout.toNanos();
        return new Answer().metric(latest * 1e-6, "ms", "latest")
                .metric(reading.cpuSeconds() * 1e3, "ms", "cpu").cores(reading);
    }

    private Answer queries(Command command, double seconds) throws Exception {
        Server server = new Server(command.text("host"), command.count("port"),
                command.text("database"), command.text("user"), command.text("password"));
        Waits[] each = new Waits[command.count("borrowers")];
        try (Pool<?> pool = library.ofAccounts(command.count("size"), server)) {
            Stopwatch.Reading reading = Workers.work(each.length, seconds,
                    (index, workers) -> each[index] = timedCycles(pool, () -> {}, workers));
            Waits all = together(each);
            return new Answer()
                    .metric(all.count() / reading.seconds() * 1e-3, "k/s", "queries")
                    .metric(all.quantile(0.5) * 1e-3, "us", "wait p50")
                    .metric(all.quantile(0.99) * 1e-3, "us", "wait p99")
                    .metric(all.longest() * 1e-3, "us", "wait longest")
                    .metric(leastToMost(each), "-", "least/most")
                    .cores(reading);
        }
    }
}
