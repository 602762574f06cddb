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

/** Measures a pool of Java when it is told to; ../README.md has the commands and the answers. */
public final class Guest {
    private static final double WARM_UP_SECONDS = 1.5;
    private static final long SMALL_STACK = 128 * 1024;  // of a thread that only waits

    private final Library library;
    private String warm = "";  // the kind of commands that the compiler is ready for

    private Guest(Library library) { this.library = library; }

    public static void main(String[] args) throws IOException {
        Library library = switch (args.length == 1 ? args[0] : "") {
            case "hikaricp" -> new Hikari();
            case "commons-pool2" -> new CommonsPool();
            default -> null;
        };
        if (library == null) {
            System.err.println("usage: java Guest hikaricp|commons-pool2");
            System.exit(2);
        }
        Guest guest = new Guest(library);
        System.out.println("ready " + library.name() + " " + library.version());
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = in.readLine()) != null;) {
            System.out.print(guest.answer(line));
            System.out.println("done");
        }
        System.exit(0);  // whatever threads a pool may have left
    }

    /** What is asked: a word, and parameters by their names. */
    private record Command(String word, Map<String, String> parameters) {
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
            Command asked = Command.parse(line);
            return switch (asked.word()) {
                case "w1" -> warmed("w1", asked.seconds(), s -> oneThread(asked, s));
                case "w2" -> warmed("w2", asked.seconds(), s -> manyThreads(asked, s));
                case "w3" -> {
                    Hold hold = Hold.of(asked.count("hold"), asked.count("asleep") != 0);
                    yield warmed("w3 " + hold.kind(), asked.seconds(), s -> crowd(asked, hold, s));
                }
                case "w4", "w4-memory" ->
                    "declined " + library.name() + " has no asynchronous acquire\n";
                case "w5" -> warmed("w5", 0, s -> storm(asked));
                case "w6" -> warmed("w6", asked.seconds(), s -> queries(asked, s));
                default -> "declined there is no command " + asked.word() + "\n";
            };
        } catch (Throwable e) {  // too many threads are an Error
            return "failed " + e.toString().replaceAll("\\s+", " ") + "\n";
        }
    }

    private interface Measurement {
        Answer over(double seconds) throws Exception;
    }

    /**
     * Measures; before the first of several commands of a kind, for a while for nothing. Another
     * kind in between counts: it may have made the compiler take back what it assumed.
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

    /** The resources of a pool, which know how often they were used. */
    private static final class Counters {
        private final Queue<Counter> all = new ConcurrentLinkedQueue<>();

        void add(Counter made) { all.add(made); }

        /** No cycle may get lost, neither to the compiler nor to a pool that lends twice. */
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

    private Answer oneThread(Command asked, double seconds) throws Exception {
        final int batches = 10;
        final int betweenLooks = 1000;
        double[] nanoseconds = new double[batches];
        long all = 0;
        Counters counters = new Counters();
        try (Pool<?> pool = library.ofCounters(asked.count("size"), Duration.ZERO, counters::add)) {
            Stopwatch watch = new Stopwatch();
            for (int i = 0; i < batches; ++i) {
                long cycles = 0;
                long began = System.nanoTime();
                long took;
                do {
                    cycle(pool, betweenLooks);
                    cycles += betweenLooks;
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

    private Answer manyThreads(Command asked, double seconds) throws Exception {
        final int betweenLooks = 32;
        long[] served = new long[asked.count("threads")];
        Counters counters = new Counters();
        try (Pool<?> pool = library.ofCounters(asked.count("size"), Duration.ZERO, counters::add)) {
            Stopwatch.Reading reading = Crew.work(served.length, seconds, (index, crew) -> {
                long cycles = 0;
                for (; !crew.stopped(); cycles += betweenLooks) cycle(pool, betweenLooks);
                served[index] = cycles;
            });
            long all = LongStream.of(served).sum();
            counters.check(all);
            return new Answer().metric(all / reading.seconds() * 1e-6, "M/s", "cycles")
                    .cores(reading);
        }
    }

    /** What a thread does while it has a resource. */
    private record Hold(String kind, Runnable pause) {
        static Hold of(long microseconds, boolean asleep) {
            long nanoseconds = microseconds * 1000;
            if (nanoseconds == 0) return new Hold("not", () -> {});
            if (asleep) return new Hold("asleep", () -> sleep(nanoseconds));
            return new Hold("busy", () -> spin(nanoseconds));
        }

        /** Thread.sleep() knows only milliseconds; a thread that is parked may wake too early. */
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

    /** Cycles whose acquire is timed, until the crew is stopped. */
    private static <L> Waits timedCycles(Pool<L> pool, Runnable pause, Crew crew) throws Exception {
        Waits waits = new Waits();
        while (!crew.stopped()) {
            long asked = System.nanoTime();
            L lease = pool.acquire();
            waits.record(System.nanoTime() - asked);
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

    /** Cycles of the thread that made the fewest, divided by those of the one that made the most. */
    private static double leastToMost(Waits[] each) {
        LongSummaryStatistics served =
                Stream.of(each).mapToLong(Waits::count).summaryStatistics();
        return (double) served.getMin() / Math.max(served.getMax(), 1);
    }

    private Answer crowd(Command asked, Hold hold, double seconds) throws Exception {
        Waits[] each = new Waits[asked.count("threads")];
        Counters counters = new Counters();
        try (Pool<?> pool = library.ofCounters(asked.count("size"), Duration.ZERO, counters::add)) {
            Stopwatch.Reading reading = Crew.work(each.length, seconds,
                    (index, crew) -> each[index] = timedCycles(pool, hold.pause(), crew));
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

    private Answer storm(Command asked) throws Exception {
        Duration patience = Duration.ofMillis(asked.count("timeout"));
        if (patience.compareTo(library.shortestPatience()) < 0) {
            patience = library.shortestPatience();
        }
        try (Pool<?> pool = library.ofCounters(asked.count("size"), patience, made -> {})) {
            return refusals(pool, asked.count("size"), asked.count("tasks"), patience);
        }
    }

    private <L> Answer refusals(Pool<L> pool, int size, int tasks, Duration patience)
            throws Exception {
        List<L> taken = new ArrayList<>();
        for (int i = 0; i < size; ++i) taken.add(pool.acquire());
        long[] waited = new long[tasks];
        Stopwatch.Reading reading = Crew.once(tasks, SMALL_STACK, patience, (index, crew) -> {
            long began = System.nanoTime();
            try {
                pool.acquire();
                throw new IllegalStateException("a resource where there was none");
            } catch (Exception e) {
                if (!library.isRefusal(e)) throw e;
                waited[index] = System.nanoTime() - began;
            }
        });
        for (L lease : taken) pool.release(lease);
        long latest = LongStream.of(waited).max().orElseThrow() - patience.toNanos();
        return new Answer().metric(latest * 1e-6, "ms", "latest")
                .metric(reading.cpuSeconds() * 1e3, "ms", "cpu").cores(reading);
    }

    private Answer queries(Command asked, double seconds) throws Exception {
        Server server = new Server(asked.text("host"), asked.count("port"), asked.text("database"),
                asked.text("user"), asked.text("password"));
        Waits[] each = new Waits[asked.count("borrowers")];
        try (Pool<?> pool = library.ofAccounts(asked.count("size"), server)) {
            Stopwatch.Reading reading = Crew.work(each.length, seconds,
                    (index, crew) -> each[index] = timedCycles(pool, () -> {}, crew));
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
