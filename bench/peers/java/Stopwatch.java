import java.lang.management.ManagementFactory;

/** Wall time and CPU time of the process since construction. */
final class Stopwatch {
    /** The JVM reads CPU time in steps of 10 ms. */
    record Reading(double seconds, double cpuSeconds) {
        double cores() { return cpuSeconds / seconds; }
    }

    private static final com.sun.management.OperatingSystemMXBean SYSTEM =
            (com.sun.management.OperatingSystemMXBean)
                    ManagementFactory.getOperatingSystemMXBean();

    private final long used = SYSTEM.getProcessCpuTime();
    private final long began = System.nanoTime();

    Reading read() {
        return new Reading((System.nanoTime() - began) * 1e-9,
                (SYSTEM.getProcessCpuTime() - used) * 1e-9);
    }
}
