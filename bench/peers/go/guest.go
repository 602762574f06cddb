// A guest of cenote-bench; ../README.md says what it is asked and what it answers. Its pools:
// puddle, a buffered channel as many programs have it, and pgxpool, which is puddle with
// connections to PostgreSQL.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// Set by the linker: without modules, a program does not know what it was built from.
var puddleVersion, pgxVersion = "unknown", "unknown"

// order is a command with its parameters.
type order struct {
	word                                 string
	given                                map[string]bool
	seconds                              time.Duration
	size, threads, tasks, borrowers      int
	hold, timeout                        time.Duration
	asleep                               bool
	host, port, user, password, database string
}

func parse(line string) (o order, err error) {
	words := strings.Split(line, " ")
	o = order{word: words[0], given: map[string]bool{}}
	for _, word := range words[1:] {
		name, value, _ := strings.Cut(word, "=")
		o.given[name] = true
		switch name {
		case "seconds":
			o.seconds, err = duration(value, time.Second)
		case "size":
			o.size, err = count(value)
		case "threads":
			o.threads, err = count(value)
		case "tasks":
			o.tasks, err = count(value)
		case "borrowers":
			o.borrowers, err = count(value)
		case "hold":
			o.hold, err = duration(value, time.Microsecond)
		case "timeout":
			o.timeout, err = duration(value, time.Millisecond)
		case "asleep":
			o.asleep, err = strconv.ParseBool(value)
		case "host":
			o.host = value
		case "port":
			o.port = value
		case "user":
			o.user = value
		case "password":
			o.password = value
		case "database":
			o.database = value
		}
		if err != nil {
			return o, fmt.Errorf("%s: %w", name, err)
		}
	}
	return o, nil
}

func count(text string) (int, error) {
	n, err := strconv.ParseInt(text, 10, 32)
	if err == nil && n < 1 {
		err = errors.New("less than one")
	}
	return int(n), err
}

func duration(text string, unit time.Duration) (time.Duration, error) {
	n, err := strconv.ParseFloat(text, 64)
	if err == nil && !(n >= 0 && n < 1e6) {
		err = errors.New("out of range")
	}
	return time.Duration(n * float64(unit)), err
}

type metric struct {
	value float64
	unit  string
	name  string
}

type answer struct {
	metrics []metric
	cores   float64
}

type workload struct {
	needs  string // parameters
	run    func(order) (answer, error)
	afresh bool // in a process of its own
}

type subject struct {
	version   string
	workloads map[string]workload
	declines  string // everything else, and why
}

func lending[L any](open func(size int) pool[L]) map[string]workload {
	on := func(run func(pool[L], order) (answer, error)) func(order) (answer, error) {
		return func(o order) (answer, error) { return run(open(o.size), o) }
	}
	return map[string]workload{
		"w1": {needs: "seconds size", run: on(oneThread[L])},
		"w2": {needs: "seconds size threads", run: on(severalThreads[L])},
		"w3": {needs: "seconds size threads hold asleep", run: on(crowd[L])},
		"w4": {needs: "seconds size tasks threads", run: on(crowdOfTasks[L])},
		// Where there were goroutines once, the runtime keeps their descriptors, and new ones would
		// seem to cost less.
		"w4-memory": {needs: "size tasks", run: on(memoryOfTasks[L]), afresh: true},
		"w5":        {needs: "size tasks timeout", run: on(refusals[L])},
	}
}

func subjects() map[string]subject {
	return map[string]subject{
		"puddle": {
			version:   puddleVersion,
			workloads: lending(newPuddle),
			declines:  "puddle does w1 to w5; for w6 it is pgxpool",
		},
		"go-channel": {
			version:   runtime.Version(),
			workloads: lending(newChannel),
			declines:  "go-channel does w1 to w5: it has no connections",
		},
		"pgxpool": {
			version: pgxVersion,
			workloads: map[string]workload{"w6": {
				needs: "seconds size borrowers host port user password database",
				run:   queries,
			}},
			declines: "pgxpool does w6: it lends nothing but connections to PostgreSQL",
		},
	}
}

// obey does what the line says and returns all there is to answer, up to done. If alone, no other
// command came before in this process.
func obey(from subject, line string, alone bool) string {
	o, err := parse(line)
	work, known := from.workloads[o.word]
	if !known {
		return "declined " + from.declines + "\ndone\n"
	}
	for _, name := range strings.Fields(work.needs) {
		if err == nil && !o.given[name] {
			err = fmt.Errorf("%s: missing", name)
		}
	}
	if err != nil {
		return failed(err)
	}
	if work.afresh && !alone {
		return obeyAfresh(line)
	}
	runtime.GC() // what earlier commands left is not for this one to collect
	said, err := work.run(o)
	if err != nil {
		return failed(err)
	}
	var text strings.Builder
	for _, m := range said.metrics {
		fmt.Fprintf(&text, "metric %.6f %s %s\n", m.value, m.unit, m.name)
	}
	fmt.Fprintf(&text, "cores %.3f\ndone\n", said.cores)
	return text.String()
}

func failed(err error) string {
	return "failed " + strings.ReplaceAll(err.Error(), "\n", " ") + "\ndone\n"
}

// obeyAfresh has a new process of this program answer.
func obeyAfresh(line string) string {
	self, err := os.Executable()
	if err != nil {
		return failed(err)
	}
	child := exec.Command(self, os.Args[1], line)
	child.Stderr = os.Stderr
	said, err := child.Output()
	if err != nil {
		return failed(err)
	}
	return string(said)
}

// answerTo prints the answer, or gives up: a server may never answer.
func answerTo(line string, from subject, alone bool) {
	const patience = 2 * time.Minute
	watchdog := time.AfterFunc(patience, func() {
		fmt.Print(failed(fmt.Errorf("no end after %v", patience)))
		os.Exit(1)
	})
	text := obey(from, line, alone)
	if !watchdog.Stop() {
		select {} // it has just begun to give up
	}
	fmt.Print(text)
}

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: guest POOL [COMMAND]")
		os.Exit(2)
	}
	from, known := subjects()[os.Args[1]]
	if !known {
		fmt.Fprintln(os.Stderr, "unknown pool:", os.Args[1])
		os.Exit(2)
	}
	if len(os.Args) > 2 {
		answerTo(os.Args[2], from, true)
		return
	}
	fmt.Println("ready", os.Args[1], from.version)
	for input := bufio.NewScanner(os.Stdin); input.Scan(); {
		answerTo(input.Text(), from, false)
	}
}
