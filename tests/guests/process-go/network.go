package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// dial connects to a server that echoes lines, and sends it one.
func dial(arguments []string) error {
	conn, err := net.Dial("tcp", arguments[0])
	if err != nil {
		return err
	}
	defer conn.Close()

	local, isTCP := conn.LocalAddr().(*net.TCPAddr)
	if !isTCP || local.Port == 0 || local.IP == nil {
		return fmt.Errorf("the local address is %v", conn.LocalAddr())
	}
	fmt.Println("remote", conn.RemoteAddr())

	if _, err := fmt.Fprintln(conn, "hello"); err != nil {
		return err
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	fmt.Print("answer ", line)
	return err
}

// dialError prints what kind of error a connection ends in.
func dialError(arguments []string) error {
	conn, err := net.Dial("tcp", arguments[0])
	if err == nil {
		conn.Close()
		return errors.New("it connects")
	}

	kind := "other"
	for errno, name := range map[syscall.Errno]string{
		syscall.ECONNREFUSED: "refused",
		syscall.ETIMEDOUT:    "timed out",
		syscall.EHOSTUNREACH: "unreachable",
		syscall.EACCES:       "not permitted",
	} {
		if errors.Is(err, errno) {
			kind = name
		}
	}
	var lookup *net.DNSError
	if errors.As(err, &lookup) {
		kind = "lookup"
	}
	fmt.Println(kind)
	fmt.Println(err)
	return nil
}

func dialTimeout(arguments []string) error {
	timeout, err := milliseconds(arguments[1])
	if err != nil {
		return err
	}

	began := time.Now()
	_, err = net.DialTimeout("tcp", arguments[0], timeout)
	var failed net.Error
	if !errors.As(err, &failed) || !failed.Timeout() {
		return fmt.Errorf("not a timeout: %v", err)
	}
	fmt.Println("timeout")
	return about(time.Since(began), timeout)
}

func dialCancel(arguments []string) error {
	after, err := milliseconds(arguments[1])
	if err != nil {
		return err
	}

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	time.AfterFunc(after, cancel)

	began := time.Now()
	_, err = new(net.Dialer).DialContext(ctx, "tcp", arguments[0])
	if !errors.Is(err, context.Canceled) {
		return fmt.Errorf("not cancelled: %v", err)
	}
	fmt.Println("cancelled")
	return about(time.Since(began), after)
}

// deadlines reads from a server that echoes lines but is sent none, until the deadline; after that
// the connection still works.
func deadlines(arguments []string) error {
	wait, err := milliseconds(arguments[1])
	if err != nil {
		return err
	}
	conn, err := net.Dial("tcp", arguments[0])
	if err != nil {
		return err
	}
	defer conn.Close()

	began := time.Now()
	if err := conn.SetReadDeadline(began.Add(wait)); err != nil {
		return err
	}
	if _, err = conn.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("no deadline: %v", err)
	}
	if err := about(time.Since(began), wait); err != nil {
		return err
	}
	fmt.Println("deadline exceeded")

	if err := conn.SetDeadline(time.Time{}); err != nil {
		return err
	}
	fmt.Fprintln(conn, "later")
	line, err := bufio.NewReader(conn).ReadString('\n')
	fmt.Print("answer ", line)
	return err
}

// closeWakesReader closes a connection while another goroutine reads from it.
func closeWakesReader(arguments []string) error {
	conn, err := net.Dial("tcp", arguments[0])
	if err != nil {
		return err
	}

	read := make(chan error)
	go func() {
		_, err := conn.Read(make([]byte, 1))
		read <- err
	}()
	time.Sleep(20 * time.Millisecond)
	if err := conn.Close(); err != nil {
		return err
	}

	if err := <-read; !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("the reader gets %v", err)
	}
	fmt.Println("closed")
	return nil
}

// halfClose ends its own direction, and reads the answer until the other one ends as well.
func halfClose(arguments []string) error {
	conn, err := net.Dial("tcp", arguments[0])
	if err != nil {
		return err
	}
	defer conn.Close()

	fmt.Fprintln(conn, "last")
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		return err
	}
	all, err := io.ReadAll(conn)
	fmt.Printf("answer %send\n", all)
	return err
}

// manyDials has many connections at once, each with a line back and forth.
func manyDials(arguments []string) error {
	count, err := strconv.Atoi(arguments[1])
	if err != nil {
		return err
	}

	var group sync.WaitGroup
	failed := make(chan error, count)
	for i := range count {
		group.Add(1)
		go func() {
			defer group.Done()
			conn, err := net.Dial("tcp", arguments[0])
			if err != nil {
				failed <- err
				return
			}
			defer conn.Close()

			fmt.Fprintln(conn, i)
			line, err := bufio.NewReader(conn).ReadString('\n')
			if line != fmt.Sprintln(i) {
				failed <- fmt.Errorf("%q for %d: %v", line, i, err)
			}
		}()
	}
	group.Wait()
	close(failed)

	fmt.Println(count-len(failed), "connections")
	return <-failed
}

// bulk sends many bytes to a server that echoes them, and reads them meanwhile.
func bulk(arguments []string) error {
	size, err := strconv.Atoi(arguments[1])
	if err != nil {
		return err
	}
	conn, err := net.Dial("tcp", arguments[0])
	if err != nil {
		return err
	}
	defer conn.Close()

	sent := make([]byte, size)
	for i := range sent {
		sent[i] = byte(i * 7)
	}
	sent[size-1] = '\n'
	written := make(chan error)
	go func() {
		_, err := conn.Write(sent)
		written <- err
	}()

	received := make([]byte, size)
	if _, err := io.ReadFull(conn, received); err != nil {
		return err
	}
	if !bytes.Equal(sent, received) {
		return errors.New("other bytes come back")
	}
	fmt.Println(size, "bytes")
	return <-written
}

// options sets what libraries set on their connections and take an error for a failure.
func options(arguments []string) error {
	conn, err := net.Dial("tcp", arguments[0])
	if err != nil {
		return err
	}
	defer conn.Close()

	tcp := conn.(*net.TCPConn)
	err = errors.Join(
		tcp.SetNoDelay(true),
		tcp.SetKeepAlive(true),
		tcp.SetKeepAlivePeriod(time.Minute),
		tcp.SetReadBuffer(1<<16),
		tcp.SetWriteBuffer(1<<16),
		tcp.SetLinger(1),
	)
	fmt.Println("set")
	return err
}

// control refuses an address in the function that a dialer calls before it connects.
func control(arguments []string) error {
	refused := errors.New("refused by control")
	var asked string
	dialer := net.Dialer{Control: func(network, address string, _ syscall.RawConn) error {
		asked = network + " " + address
		return refused
	}}

	_, err := dialer.Dial("tcp", arguments[0])
	if !errors.Is(err, refused) {
		return fmt.Errorf("not refused: %v", err)
	}
	fmt.Println("asked for", asked)
	return nil
}

func get(arguments []string) error {
	answer, err := http.Get(arguments[0])
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	fmt.Println(answer.StatusCode, string(body))
	return err
}

// listen accepts one connection and echoes its lines.
func listen(arguments []string) error {
	listener, err := net.Listen("tcp", arguments[0])
	if err != nil {
		return err
	}
	defer listener.Close()
	fmt.Println("listening on", listener.Addr())

	conn, err := listener.Accept()
	if err != nil {
		return err
	}
	defer conn.Close()

	remote, isTCP := conn.RemoteAddr().(*net.TCPAddr)
	if !isTCP || remote.Port == 0 {
		return fmt.Errorf("the remote address is %v", conn.RemoteAddr())
	}
	_, err = io.Copy(conn, conn)
	fmt.Println("accepted at", conn.LocalAddr())
	return err
}

// listenTwice listens on a port that is taken, and once more when it is free.
func listenTwice(arguments []string) error {
	first, err := net.Listen("tcp", arguments[0])
	if err != nil {
		return err
	}
	if _, err = net.Listen("tcp", first.Addr().String()); !errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("the port is not in use: %v", err)
	}

	accepting := make(chan error)
	go func() {
		_, err := first.Accept()
		accepting <- err
	}()
	time.Sleep(20 * time.Millisecond)
	first.Close()
	if err := <-accepting; !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("accept gets %v", err)
	}

	again, err := net.Listen("tcp", first.Addr().String())
	if err != nil {
		return err
	}
	fmt.Println("in use, then free")
	return again.Close()
}

// ownListener connects to its own server, as a readiness check does.
func ownListener(arguments []string) error {
	listener, err := net.Listen("tcp", arguments[0])
	if err != nil {
		return err
	}
	go http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "ready")
	}))
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		return err
	}
	return get([]string{"http://localhost:" + port})
}

// serve answers HTTP until SIGTERM, and ends as an operator does.
func serve(arguments []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()

	listener, err := net.Listen("tcp", arguments[0])
	if err != nil {
		return err
	}
	server := http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s %s", r.Method, r.URL.Path)
	})}
	served := make(chan error)
	go func() { served <- server.Serve(listener) }()
	fmt.Println("listening on", listener.Addr())

	<-ctx.Done()
	if err := server.Shutdown(context.Background()); err != nil {
		return err
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	fmt.Println("shut down")
	return nil
}

// unixSocket connects to its own Unix socket. As a process, it is only in the program's memory.
func unixSocket(arguments []string) error {
	name := filepath.Join(arguments[0], "process-go.sock")
	listener, err := net.Listen("unix", name)
	if err != nil {
		return err
	}
	defer listener.Close()
	go func() {
		if conn, err := listener.Accept(); err == nil {
			fmt.Fprintln(conn, "hello")
		}
	}()

	conn, err := net.Dial("unix", name)
	if err != nil {
		return err
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	fmt.Print("answer ", line)
	return err
}

// udp shows that there is none, rather than one whose packets get lost.
func udp(arguments []string) error {
	_, dialed := net.Dial("udp", arguments[0])
	_, listening := net.ListenPacket("udp", ":0")
	fmt.Println(errors.Is(dialed, syscall.EPROTONOSUPPORT), errors.Is(listening, syscall.EPROTONOSUPPORT))
	return nil
}

// lookup asks for a name's addresses in each way that there is.
func lookup(arguments []string) error {
	name, ctx := arguments[0], context.Background()

	hosts, err := net.LookupHost(name)
	fmt.Println("host", hosts, kindOf(err))
	ips, err := net.DefaultResolver.LookupIPAddr(ctx, name)
	fmt.Println("ip", ips, kindOf(err))
	v4, err := net.DefaultResolver.LookupNetIP(ctx, "ip4", name)
	fmt.Println("ip4", v4, kindOf(err))
	v6, err := net.DefaultResolver.LookupNetIP(ctx, "ip6", name)
	fmt.Println("ip6", v6, kindOf(err))
	return nil
}

func kindOf(err error) string {
	var failed *net.DNSError
	switch {
	case err == nil:
		return "found"
	case !errors.As(err, &failed):
		return err.Error()
	case failed.IsNotFound:
		return "not found"
	case failed.IsTimeout:
		return "timeout"
	case failed.IsTemporary:
		return "temporary"
	default:
		return failed.Err
	}
}

// records asks for what is no address.
func records(arguments []string) error {
	name := arguments[0]
	_, cname := net.LookupCNAME(name)
	_, mx := net.LookupMX(name)
	_, ns := net.LookupNS(name)
	_, txt := net.LookupTXT(name)
	_, _, srv := net.LookupSRV("https", "tcp", name)
	_, ptr := net.LookupAddr("192.0.2.1")
	for _, err := range []error{cname, mx, ns, txt, srv, ptr} {
		fmt.Println(kindOf(err))
	}

	port, err := net.LookupPort("tcp", "https")
	fmt.Println("https is port", port)
	return err
}
