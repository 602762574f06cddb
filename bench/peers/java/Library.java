import java.io.IOException;
import java.io.InputStream;
import java.time.Duration;
import java.util.Properties;
import java.util.function.Consumer;

/** A library, and how pools are made with it. */
interface Library {
    String name();

    String version() throws IOException;

    /** A pool of counters, each of which is shown to `made`; patience 0: as long as by default. */
    Pool<?> ofCounters(int size, Duration patience, Consumer<Counter> made) throws Exception;

    /** A pool of connections. */
    Pool<?> ofAccounts(int size, Server server) throws Exception;

    /** The shortest time that a pool can be told to wait. */
    default Duration shortestPatience() { return Duration.ofMillis(1); }

    /** Whether this is how the pool says that there is no resource in time. */
    boolean isRefusal(Exception e);

    /** Debian's jars carry the version where Maven leaves it. */
    static String mavenVersion(Class<?> of, String artifact) throws IOException {
        Properties about = new Properties();
        try (InputStream in = of.getResourceAsStream("/META-INF/maven/" + artifact
                + "/pom.properties")) {
            if (in != null) about.load(in);
        }
        return about.getProperty("version", "unknown");
    }
}
