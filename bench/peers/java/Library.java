import java.io.IOException;
import java.io.InputStream;
import java.time.Duration;
import java.util.Properties;
import java.util.function.Consumer;

/** A library that creates pools. */
interface Library {
    String name();

    String version() throws IOException;

    /** A pool of counters, each of which is passed to `made`. Timeout 0: the default. */
    Pool<?> ofCounters(int size, Duration timeout, Consumer<Counter> made) throws Exception;

    /** A pool of connections to PostgreSQL. */
    Pool<?> ofAccounts(int size, Server server) throws Exception;

    /** The shortest timeout that the library accepts. */
    default Duration shortestTimeout() { return Duration.ofMillis(1); }

    /** Whether the exception reports a timeout. */
    boolean isRefusal(Exception e);

    /** The version in Maven's metadata, which Debian's jars contain. */
    static String mavenVersion(Class<?> of, String artifact) throws IOException {
        Properties about = new Properties();
        try (InputStream in = of.getResourceAsStream("/META-INF/maven/" + artifact
                + "/pom.properties")) {
            if (in != null) about.load(in);
        }
        return about.getProperty("version", "unknown");
    }
}
