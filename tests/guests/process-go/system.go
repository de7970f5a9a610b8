package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// signals prints the signals that it gets, until SIGTERM. It ignores SIGHUP.
func signals([]string) error {
	signal.Ignore(syscall.SIGHUP)
	if !signal.Ignored(syscall.SIGHUP) || signal.Ignored(syscall.SIGTERM) {
		return errors.New("other signals are ignored")
	}

	channel := make(chan os.Signal, 8)
	signal.Notify(channel, syscall.SIGINT, syscall.SIGTERM)
	fmt.Println("ready")

	for received := range channel {
		fmt.Println("got", received)
		if received == syscall.SIGTERM {
			break
		}
	}
	return nil
}

// signalDefault takes the first SIGTERM; the second one ends it.
func signalDefault([]string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	fmt.Println("ready")
	<-ctx.Done()
	stop()
	fmt.Println("stopping")
	time.Sleep(time.Minute)
	return errors.New("nothing has ended it")
}

func timers([]string) error {
	began := time.Now()
	<-time.After(30 * time.Millisecond)
	if err := about(time.Since(began), 30*time.Millisecond); err != nil {
		return err
	}

	ticker := time.NewTicker(10 * time.Millisecond)
	began = time.Now()
	for range 5 {
		<-ticker.C
	}
	ticker.Stop()
	if err := about(time.Since(began), 50*time.Millisecond); err != nil {
		return err
	}

	stopped := time.AfterFunc(10*time.Millisecond, func() { fmt.Println("a stopped timer fires") })
	if !stopped.Stop() {
		return errors.New("the timer has fired at once")
	}

	began = time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	<-ctx.Done()
	if err := about(time.Since(began), 20*time.Millisecond); err != nil {
		return err
	}
	fmt.Println("in time:", ctx.Err())
	return nil
}

// goroutines has many of them wait for each other, for a timer and for a lock.
func goroutines(arguments []string) error {
	count, err := strconv.Atoi(arguments[0])
	if err != nil {
		return err
	}

	var mutex sync.Mutex
	var group sync.WaitGroup
	sum, values := 0, make(chan int)
	for i := range count {
		group.Add(2)
		go func() {
			defer group.Done()
			time.Sleep(time.Duration(i%10) * time.Millisecond)
			values <- i
		}()
		go func() {
			defer group.Done()
			value := <-values
			mutex.Lock()
			defer mutex.Unlock()
			sum += value
		}()
	}
	group.Wait()
	fmt.Println("sum", sum)
	return nil
}

// fair has two goroutines that keep each other busy for two seconds, while a server that echoes
// lines answers a third one.
func fair(arguments []string) error {
	conn, err := net.Dial("tcp", arguments[0])
	if err != nil {
		return err
	}
	defer conn.Close()

	there, back := make(chan bool), make(chan bool)
	end := time.Now().Add(2 * time.Second)
	var group sync.WaitGroup
	group.Add(2)
	go func() {
		defer group.Done()
		defer close(there)
		for time.Now().Before(end) {
			there <- true
			<-back
		}
	}()
	go func() {
		defer group.Done()
		for range there {
			back <- true
		}
	}()

	began := time.Now()
	fmt.Fprintln(conn, "hello")
	if _, err := conn.Read(make([]byte, 16)); err != nil {
		return err
	}
	took := time.Since(began)
	group.Wait()
	if took > time.Second {
		return fmt.Errorf("the answer came after %v", took)
	}
	fmt.Println("answered beside busy goroutines")
	return nil
}

func sleep(arguments []string) error {
	wait, err := milliseconds(arguments[0])
	time.Sleep(wait)
	fmt.Println("slept")
	return err
}

var spun int

// spin never calls a function, so Go can't take the processor from it.
func spin([]string) error {
	fmt.Println("spinning")
	for {
		spun++
	}
}

//go:noinline
func spinOnce(n int) { spun += n }

// spinCalls spins in a loop whose calls give the runtime its chance, beside a ticking goroutine.
func spinCalls([]string) error {
	fmt.Println("spinning")
	go func() {
		for range time.Tick(100 * time.Millisecond) {
			fmt.Println("tick")
		}
	}()
	for {
		spinOnce(1)
	}
}

var kept [][]byte

// allocate keeps and touches memory, and prints each megabyte.
func allocate(arguments []string) error {
	count, err := strconv.Atoi(arguments[0])
	if err != nil {
		return err
	}
	for i := range count {
		megabyte := make([]byte, 1<<20)
		for at := 0; at < len(megabyte); at += 4096 {
			megabyte[at] = 1
		}
		kept = append(kept, megabyte)
		if i%64 == 63 {
			fmt.Println(i+1, "MB")
		}
	}
	fmt.Println("allocated")
	return nil
}

// deadlock leaves nothing that could wake the program. Go ends it with code 2.
func deadlock([]string) error {
	<-make(chan bool)
	return nil
}

func exit(arguments []string) error {
	code, err := strconv.Atoi(arguments[0])
	if err != nil {
		return err
	}
	fmt.Println("exiting")
	os.Exit(code)
	return nil
}

func panics([]string) error {
	panic("on purpose")
}

// nilPointer reads through one, which Go turns into a panic.
func nilPointer([]string) error {
	var conn *net.TCPAddr
	fmt.Println(conn.Port)
	return nil
}

func arguments(arguments []string) error {
	fmt.Printf("%q\n", arguments)
	return nil
}

func environment(names []string) error {
	for _, name := range names {
		value, set := os.LookupEnv(name)
		fmt.Printf("%s=%q %t\n", name, value, set)
	}
	return nil
}

func hostname([]string) error {
	name, err := os.Hostname()
	fmt.Println(name)
	return err
}

func read(arguments []string) error {
	content, err := os.ReadFile(arguments[0])
	fmt.Print(string(content))
	return err
}

// files makes, reads, lists, renames and removes files in a folder.
func files(arguments []string) error {
	folder := filepath.Join(arguments[0], "process-go")
	if err := os.MkdirAll(filepath.Join(folder, "inner"), 0o755); err != nil {
		return err
	}
	file := filepath.Join(folder, "inner", "a.txt")
	if err := os.WriteFile(file, []byte(strings.Repeat("line\n", 1000)), 0o644); err != nil {
		return err
	}
	if err := os.Rename(file, filepath.Join(folder, "b.txt")); err != nil {
		return err
	}

	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		inner, err := filepath.Rel(folder, path)
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err == nil {
			fmt.Println(inner, info.Size(), "bytes")
		}
		return err
	})
	if err != nil {
		return err
	}

	if _, err := os.ReadFile(file); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the renamed file is still there: %v", err)
	}
	if err := os.RemoveAll(folder); err != nil {
		return err
	}
	fmt.Println("removed")
	return nil
}

// output prints lines with this many bytes together.
func output(arguments []string) error {
	count, err := strconv.Atoi(arguments[0])
	if err != nil {
		return err
	}
	line := strings.Repeat("x", 63) + "\n"
	for count > 0 {
		n := min(count, len(line))
		if _, err := os.Stdout.WriteString(line[len(line)-n:]); err != nil {
			return err
		}
		count -= n
	}
	return nil
}
