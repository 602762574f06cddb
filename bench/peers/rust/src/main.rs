//! A peer process for r2d2. ../README.md has the protocol.

use std::collections::HashMap;
use std::convert::Infallible;
use std::error::Error;
use std::io::{self, BufRead};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Barrier, RwLock};
use std::thread;
use std::time::{Duration, Instant};

const VERSION: &str = "0.8.10";

type Fallible<T> = Result<T, Box<dyn Error>>;
type Pool = r2d2::Pool<Manager>;

/// Opens resources that never fail.
struct Manager;

impl r2d2::ManageConnection for Manager {
    type Connection = Box<u64>;
    type Error = Infallible;

    fn connect(&self) -> Result<Box<u64>, Infallible> {
        Ok(Box::new(0))
    }
    fn is_valid(&self, _: &mut Box<u64>) -> Result<(), Infallible> {
        Ok(())
    }
    fn has_broken(&self, _: &mut Box<u64>) -> bool {
        false
    }
}

/// A pool with all resources open; `build` waits for them.
fn full_pool(size: u32) -> Fallible<Pool> {
    Ok(r2d2::Pool::builder().max_size(size).build(Manager)?)
}

fn take_all(pool: &Pool) -> Result<Vec<r2d2::PooledConnection<Manager>>, r2d2::Error> {
    (0..pool.max_size()).map(|_| pool.get()).collect()
}

/// Checks that each cycle incremented a resource: none was shared, none was optimized away.
fn check_sum(pool: &Pool, cycles: u64) -> Fallible<()> {
    let sum: u64 = take_all(pool)?.iter().map(|resource| ***resource).sum();
    if sum != cycles {
        return Err(format!("{cycles} cycles, but the resources count {sum}").into());
    }
    Ok(())
}

/// Wall time and CPU time of the process since start().
struct Stopwatch {
    began: Instant,
    used: f64,
}

impl Stopwatch {
    fn start() -> Self {
        Stopwatch {
            began: Instant::now(),
            used: cpu_seconds(),
        }
    }
    fn seconds(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }
    fn cpu(&self) -> f64 {
        cpu_seconds() - self.used
    }
    fn cores(&self) -> f64 {
        self.cpu() / self.seconds()
    }
}

fn cpu_seconds() -> f64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: getrusage fills the struct; with these arguments it cannot fail.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
        usage.assume_init()
    };
    let seconds = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 * 1e-6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

/// A histogram of nanoseconds with 32 equal steps per power of two; small values are exact.
struct Waits {
    buckets: Vec<u64>,
    count: u64,
    longest: u64,
}

impl Waits {
    const STEPS: usize = 32;

    fn new() -> Self {
        Waits {
            buckets: vec![0; 60 * Self::STEPS],
            count: 0,
            longest: 0,
        }
    }

    fn record(&mut self, wait: Duration) {
        let value = wait.as_nanos() as u64;
        // The bucket is exponent times steps plus the six leading bits.
        let shift = (64 - value.leading_zeros() as usize).saturating_sub(6);
        self.buckets[shift * Self::STEPS + (value >> shift) as usize] += 1;
        self.count += 1;
        self.longest = self.longest.max(value);
    }

    fn add(&mut self, other: &Waits) {
        for (mine, theirs) in self.buckets.iter_mut().zip(&other.buckets) {
            *mine += theirs;
        }
        self.count += other.count;
        self.longest = self.longest.max(other.longest);
    }

    /// The value that a `share` of all waits do not exceed, in microseconds.
    fn quantile(&self, share: f64) -> f64 {
        let rank = (share * self.count as f64) as u64;
        let mut seen = 0;
        let bucket = self.buckets.iter().position(|n| {
            seen += n;
            seen > rank
        });
        let nanoseconds = bucket.map_or(self.longest, |i| Self::upper_end(i).min(self.longest));
        nanoseconds as f64 * 1e-3
    }

    fn upper_end(bucket: usize) -> u64 {
        let shift = (bucket / Self::STEPS).saturating_sub(1);
        ((bucket - shift * Self::STEPS + 1) as u64 * (1 << shift)) - 1
    }
}

/// The parameters of a command.
struct Parameters<'a>(HashMap<&'a str, &'a str>);

impl<'a> Parameters<'a> {
    fn parse(words: impl Iterator<Item = &'a str>) -> Self {
        Parameters(words.filter_map(|word| word.split_once('=')).collect())
    }

    fn get<T>(&self, name: &str) -> Fallible<T>
    where
        T: std::str::FromStr,
        T::Err: Error + 'static,
    {
        let value = self
            .0
            .get(name)
            .ok_or_else(|| format!("no parameter {name}"))?;
        Ok(value.parse()?)
    }

    fn seconds(&self) -> Fallible<Duration> {
        Ok(Duration::from_secs_f64(self.get("seconds")?))
    }
}

struct Measured {
    metrics: Vec<(f64, &'static str, &'static str)>, // value, unit, name
    cores: f64,
}

/// The results of threads that started and stopped together.
struct GroupResult<T> {
    done: Vec<T>,
    seconds: f64,
    cores: f64,
}

fn run_threads<T: Send>(
    count: usize,
    duration: Duration,
    work: impl Fn(&AtomicBool) -> Result<T, r2d2::Error> + Sync,
) -> Fallible<GroupResult<T>> {
    let stop = AtomicBool::new(false);
    let ready = Barrier::new(count + 1);
    thread::scope(|scope| {
        let spawn = |_| {
            scope.spawn(|| {
                ready.wait();
                work(&stop)
            })
        };
        let threads: Vec<_> = (0..count).map(spawn).collect();
        ready.wait();
        let watch = Stopwatch::start();
        thread::sleep(duration);
        stop.store(true, Relaxed);
        let (seconds, cores) = (watch.seconds(), watch.cores());
        let join = |t: thread::ScopedJoinHandle<_>| t.join().expect("a thread panicked");
        let done = threads.into_iter().map(join).collect::<Result<_, _>>()?;
        Ok(GroupResult {
            done,
            seconds,
            cores,
        })
    })
}

/// One thread runs cycles.
fn w1(given: &Parameters) -> Fallible<Measured> {
    const BATCHES: usize = 10;
    const CYCLES_PER_CHECK: u64 = 1000;
    let pool = full_pool(given.get("size")?)?;
    let duration = given.seconds()? / BATCHES as u32;
    let mut total = 0;
    let mut batches = Vec::new();
    let watch = Stopwatch::start();
    for _ in 0..BATCHES {
        let began = Instant::now();
        let mut cycles = 0;
        let mut elapsed = Duration::ZERO;
        while elapsed < duration {
            for _ in 0..CYCLES_PER_CHECK {
                **pool.get()? += 1;
            }
            cycles += CYCLES_PER_CHECK;
            elapsed = began.elapsed();
        }
        batches.push(elapsed.as_nanos() as f64 / cycles as f64);
        total += cycles;
    }
    let cores = watch.cores();
    check_sum(&pool, total)?;
    batches.sort_by(f64::total_cmp);
    let median = (batches[BATCHES / 2 - 1] + batches[BATCHES / 2]) / 2.0;
    Ok(Measured {
        metrics: vec![(median, "ns", "cycle")],
        cores,
    })
}

/// Many threads run cycles.
fn w2(given: &Parameters) -> Fallible<Measured> {
    let pool = full_pool(given.get("size")?)?;
    let group = run_threads(given.get("threads")?, given.seconds()?, |stop| {
        let mut cycles = 0;
        while !stop.load(Relaxed) {
            **pool.get()? += 1;
            cycles += 1;
        }
        Ok(cycles)
    })?;
    let cycles = group.done.iter().sum();
    check_sum(&pool, cycles)?;
    let rate = cycles as f64 / group.seconds * 1e-6;
    Ok(Measured {
        metrics: vec![(rate, "M/s", "cycles")],
        cores: group.cores,
    })
}

/// More threads than resources.
fn w3(given: &Parameters) -> Fallible<Measured> {
    let pool = full_pool(given.get("size")?)?;
    let hold = Duration::from_micros(given.get("hold")?);
    let asleep = given.get::<u8>("asleep")? != 0;
    let group = run_threads(given.get("threads")?, given.seconds()?, |stop| {
        let mut waits = Waits::new();
        while !stop.load(Relaxed) {
            let began = Instant::now();
            let mut resource = pool.get()?;
            let got = Instant::now();
            waits.record(got - began);
            **resource += 1;
            if hold.is_zero() {
                continue;
            }
            if asleep {
                thread::sleep(hold);
            } else {
                while got.elapsed() < hold {}
            }
        }
        Ok(waits)
    })?;
    let mut all = Waits::new();
    for waits in &group.done {
        all.add(waits);
    }
    check_sum(&pool, all.count)?;
    let most = group.done.iter().map(|w| w.count).max().unwrap_or(0).max(1);
    let least = group.done.iter().map(|w| w.count).min().unwrap_or(0);
    let metrics = vec![
        (all.count as f64 / group.seconds * 1e-3, "k/s", "cycles"),
        (all.quantile(0.5), "us", "wait p50"),
        (all.quantile(0.99), "us", "wait p99"),
        (all.quantile(0.999), "us", "wait p99.9"),
        (all.longest as f64 * 1e-3, "us", "wait longest"),
        (least as f64 / most as f64, "-", "least/most"),
    ];
    Ok(Measured {
        metrics,
        cores: group.cores,
    })
}

/// Many threads wait for an exhausted pool and are refused.
fn w5(given: &Parameters) -> Fallible<Measured> {
    const STACK: usize = 64 << 10; // for ten thousand threads
    let pool = full_pool(given.get("size")?)?;
    let tasks: usize = given.get("tasks")?;
    let timeout = Duration::from_millis(given.get("timeout")?);
    let _leased = take_all(&pool)?;

    // Readers start together when the writer releases the lock, which is cheaper than a barrier for
    // ten thousand threads. The second lock keeps the end of the threads out of the measurement.
    let (start, end) = (RwLock::new(()), RwLock::new(()));
    let (missing, waiting) = (AtomicUsize::new(tasks), AtomicUsize::new(tasks));
    let conductor = thread::current();
    let pass = |gate: &RwLock<()>, left: &AtomicUsize| {
        if left.fetch_sub(1, Relaxed) == 1 {
            conductor.unpark();
        }
        drop(gate.read());
    };
    let none = |left: &AtomicUsize| {
        while left.load(Relaxed) != 0 {
            thread::park();
        }
    };
    let wait = || {
        pass(&start, &missing);
        let began = Instant::now();
        let refused = pool.get_timeout(timeout).is_err();
        let late = began.elapsed().as_secs_f64() - timeout.as_secs_f64();
        pass(&end, &waiting);
        refused.then_some(late * 1e3)
    };
    thread::scope(|scope| {
        // If a thread cannot be created, the error drops both guards, and the others end.
        let start_closed = start.write();
        let end_closed = end.write();
        let mut threads = Vec::with_capacity(tasks);
        for _ in 0..tasks {
            threads.push(
                thread::Builder::new()
                    .stack_size(STACK)
                    .spawn_scoped(scope, wait)?,
            );
        }
        none(&missing);
        let watch = Stopwatch::start();
        drop(start_closed);
        none(&waiting);
        let (cpu, cores) = (watch.cpu() * 1e3, watch.cores());
        drop(end_closed);
        let mut latest = f64::MIN;
        for t in threads {
            let late = t.join().expect("a thread panicked");
            latest = latest.max(late.ok_or("an exhausted pool leased a resource")?);
        }
        Ok(Measured {
            metrics: vec![(latest, "ms", "latest"), (cpu, "ms", "cpu")],
            cores,
        })
    })
}

/// Executes a command; returns the reply without its last line.
fn answer(command: &str) -> String {
    let mut words = command.split(' ');
    let name = words.next().unwrap_or_default();
    let given = Parameters::parse(words);
    let result = match name {
        "w1" => w1(&given),
        "w2" => w2(&given),
        "w3" => w3(&given),
        "w5" => w5(&given),
        "w4" | "w4-memory" => return "declined r2d2 has no asynchronous acquire".into(),
        "w6" => return "declined Debian has no PostgreSQL client for r2d2".into(),
        _ => return format!("declined unknown command {name}"),
    };
    match result {
        Ok(Measured { metrics, cores }) => {
            let lines = metrics
                .iter()
                .map(|(v, unit, of)| format!("metric {v:.6} {unit} {of}\n"));
            lines.collect::<String>() + &format!("cores {cores:.3}")
        }
        Err(error) => format!("failed {error}"),
    }
}

fn main() -> ExitCode {
    if std::env::args().skip(1).ne(["r2d2"]) {
        eprintln!("usage: cenote-peer r2d2");
        return ExitCode::from(2);
    }
    println!("ready r2d2 {VERSION}");
    for command in io::stdin().lock().lines() {
        match command {
            Ok(command) => println!("{}\ndone", answer(&command)),
            Err(_) => break,
        }
    }
    ExitCode::SUCCESS
}
