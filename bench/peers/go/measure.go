package main

import (
	"math/bits"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

var epoch = time.Now()

// now reads only the monotonic clock; time.Now reads two clocks.
func now() time.Duration { return time.Since(epoch) }

// stopwatch measures wall time and CPU time of the process.
type stopwatch struct{ wall, cpu time.Duration }

func startWatch() stopwatch { return stopwatch{cpu: cpuTime(), wall: now()} }

func (s stopwatch) passed() stopwatch {
	return stopwatch{wall: now() - s.wall, cpu: cpuTime() - s.cpu}
}

func (s stopwatch) cores() float64 { return s.cpu.Seconds() / s.wall.Seconds() }

func cpuTime() time.Duration {
	var used syscall.Rusage
	must(syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

const steps = 32

// waits is a histogram of nanoseconds with 32 equal steps per power of two (3 % resolution).
type waits struct {
	buckets [60 * steps]uint64
	count   uint64
	longest uint64
	_       [64]byte // so that neighbors in a slice share no cache line
}

func (w *waits) record(wait time.Duration) {
	value := uint64(wait)
	bucket := value // small values are exact
	if value >= steps {
		shift := bits.Len64(value) - 6
		bucket = uint64(shift)*steps + value>>shift
	}
	w.buckets[bucket]++
	w.count++
	if value > w.longest {
		w.longest = value
	}
}

func (w *waits) add(other *waits) {
	for i, n := range other.buckets {
		w.buckets[i] += n
	}
	w.count += other.count
	if other.longest > w.longest {
		w.longest = other.longest
	}
}

// quantile is the value that a share of all waits do not exceed, rounded up to the resolution.
func (w *waits) quantile(share float64) uint64 {
	rank := uint64(share * float64(w.count))
	seen := uint64(0)
	for i, n := range w.buckets {
		seen += n
		if seen <= rank {
			continue
		}
		end := uint64(i)
		if i >= 2*steps {
			end = uint64(i%steps+steps+1)<<(i/steps-1) - 1
		}
		if end < w.longest {
			return end
		}
		break
	}
	return w.longest
}

func (w *waits) metric(name string, share float64) metric {
	return metric{microseconds(w.quantile(share)), "us", name}
}

func microseconds(nanoseconds uint64) float64 { return float64(nanoseconds) / 1e3 }

func together(each []waits) *waits {
	all := new(waits)
	for i := range each {
		all.add(&each[i])
	}
	return all
}

// assemble creates goroutines that wait for start.
func assemble(count int, work func(index int)) (start func(), ended *sync.WaitGroup) {
	started := make(chan struct{})
	var ready sync.WaitGroup
	ended = new(sync.WaitGroup)
	ready.Add(count)
	ended.Add(count)
	for i := 0; i < count; i++ {
		go func(index int) {
			defer ended.Done()
			ready.Done()
			<-started
			work(index)
		}(i)
	}
	ready.Wait()
	return func() { close(started) }, ended
}

// stopFlag stops goroutines. It has its own cache line, because all goroutines read it constantly.
type stopFlag struct {
	_   [64]byte
	set atomic.Bool
	_   [64]byte
}

type groupResult struct {
	served []uint64 // cycles of each goroutine that ended before the stop
	took   stopwatch
}

func (s groupResult) perSecond() float64 {
	sum := uint64(0)
	for _, n := range s.served {
		sum += n
	}
	return float64(sum) / s.took.wall.Seconds()
}

// leastToMost is the fewest cycles of a goroutine divided by the most.
func (s groupResult) leastToMost() float64 {
	least, most := s.served[0], s.served[0]
	for _, n := range s.served {
		if n < least {
			least = n
		}
		if n > most {
			most = n
		}
	}
	if most == 0 {
		return 0
	}
	return float64(least) / float64(most)
}

// runGroup runs work on count goroutines for a while; work returns its number of cycles.
func runGroup(count int, length time.Duration,
	work func(index int, stop *stopFlag) uint64) groupResult {
	done := groupResult{served: make([]uint64, count)}
	stop := new(stopFlag)
	start, ended := assemble(count, func(index int) { done.served[index] = work(index, stop) })
	watch := startWatch()
	start()
	time.Sleep(length)
	stop.set.Store(true)
	done.took = watch.passed()
	ended.Wait()
	return done
}
