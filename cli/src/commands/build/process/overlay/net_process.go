//go:build wasip1

// Added to package net by `operetta build`: TCP over descriptors of the host, and names that the
// host resolves. The stock functions that these replace are renamed to stock… beside their
// callers; Unix sockets still use Go's network in memory.

package net

import (
	"context"
	"internal/poll"
	"io"
	"os"
	"syscall"
	"unsafe"
)

// An address in memory: 16 bytes of IPv6, IPv4 mapped into it, and the port in big endian.
type processAddress [18]byte

//go:wasmimport operetta_process dial
//go:noescape
func processDial(address unsafe.Pointer, length uint32) int32

//go:wasmimport operetta_process dialled
//go:noescape
func processDialled(fd int32, local unsafe.Pointer) uint32

//go:wasmimport operetta_process listen
//go:noescape
func processListen(address unsafe.Pointer, length uint32, local unsafe.Pointer) int32

//go:wasmimport operetta_process addresses
//go:noescape
func processAddresses(fd int32, local, remote unsafe.Pointer) uint32

//go:wasmimport operetta_process resolve
//go:noescape
func processResolve(name unsafe.Pointer, length uint32) int32

func (a *processAddress) tcp() *TCPAddr {
	ip := make(IP, IPv6len)
	copy(ip, a[:IPv6len])
	if v4 := ip.To4(); v4 != nil {
		ip = v4
	}
	return &TCPAddr{IP: ip, Port: int(a[16])<<8 | int(a[17])}
}

// socket dials or listens. TCP goes to the host; what is left of the other networks fails as on a
// system without that protocol.
func socket(ctx context.Context, network string, family, sotype, proto int, ipv6only bool, laddr, raddr sockaddr, ctrlCtxFn func(context.Context, string, string, syscall.RawConn) error) (*netFD, error) {
	switch network {
	case "tcp", "tcp4", "tcp6":
	case "unix", "unixgram", "unixpacket":
		return stockSocket(ctx, network, family, sotype, proto, ipv6only, laddr, raddr, ctrlCtxFn)
	default:
		return nil, os.NewSyscallError("socket", syscall.EPROTONOSUPPORT)
	}

	local, _ := laddr.(*TCPAddr)
	remote, _ := raddr.(*TCPAddr)

	// The function gets the address before anything is sent there, so it can still refuse it. It
	// finds no socket whose options it could set.
	if ctrlCtxFn != nil {
		address := local
		if remote != nil {
			address = remote
		}
		if err := ctrlCtxFn(ctx, processNetwork(network, family), address.String(), processRawConn{}); err != nil {
			return nil, err
		}
	}

	if remote != nil {
		return processConnect(ctx, network, family, sotype, local, remote)
	}
	return processBind(network, family, sotype, local)
}

func processNetwork(network string, family int) string {
	switch {
	case network != "tcp":
		return network
	case family == syscall.AF_INET:
		return "tcp4"
	default:
		return "tcp6"
	}
}

// processConnect dials and waits as (*netFD).connect does on Unix: for the descriptor to become
// writable, until the context's deadline or its end.
func processConnect(ctx context.Context, network string, family, sotype int, local, remote *TCPAddr) (fd *netFD, err error) {
	if local != nil && (local.Port != 0 || len(local.IP) != 0 && !local.IP.IsUnspecified()) {
		return nil, os.NewSyscallError("bind", syscall.ENOTSUP)
	}
	if ctx.Err() != nil {
		return nil, mapErr(ctx.Err())
	}

	address := []byte(remote.String())
	sysfd := processDial(unsafe.Pointer(unsafe.SliceData(address)), uint32(len(address)))
	if sysfd < 0 {
		return nil, os.NewSyscallError("connect", syscall.Errno(-sysfd))
	}
	fd, err = processFD(network, family, sotype, sysfd)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			fd.Close()
			fd = nil
		}
	}()

	if deadline, ok := ctx.Deadline(); ok {
		fd.pfd.SetWriteDeadline(deadline)
		defer fd.pfd.SetWriteDeadline(noDeadline)
	}

	if ctx.Done() != nil {
		// The watcher has ended before this function returns: a deadline that it sets later would
		// hit the connection's first write.
		connected, cause := make(chan struct{}), make(chan error)
		defer func() {
			close(connected)
			if ended := <-cause; ended != nil && err == nil {
				err = mapErr(ended)
			}
		}()
		go func() {
			select {
			case <-ctx.Done():
				fd.pfd.SetWriteDeadline(aLongTimeAgo)
				cause <- ctx.Err()
			case <-connected:
				cause <- nil
			}
		}()
	}

	for {
		if err := fd.pfd.WaitWrite(); err != nil {
			if ended := ctx.Err(); ended != nil {
				err = mapErr(ended)
			}
			return fd, err
		}

		var from processAddress
		switch errno := syscall.Errno(processDialled(sysfd, unsafe.Pointer(&from))); errno {
		case 0:
			fd.isConnected = true
			fd.setAddr(from.tcp(), remote)
			return fd, nil
		case syscall.EAGAIN, syscall.EINTR:
			// A spurious wake-up.
		default:
			return fd, os.NewSyscallError("connect", errno)
		}
	}
}

func processBind(network string, family, sotype int, local *TCPAddr) (*netFD, error) {
	wanted := TCPAddr{}
	if local != nil {
		wanted = *local
	}
	if len(wanted.IP) == 0 {
		wanted.IP = IPv6unspecified
		if family == syscall.AF_INET {
			wanted.IP = IPv4zero
		}
	}

	var bound processAddress
	address := []byte(wanted.String())
	sysfd := processListen(unsafe.Pointer(unsafe.SliceData(address)), uint32(len(address)), unsafe.Pointer(&bound))
	if sysfd < 0 {
		return nil, os.NewSyscallError("bind", syscall.Errno(-sysfd))
	}

	fd, err := processFD(network, family, sotype, sysfd)
	if err != nil {
		return nil, err
	}
	fd.setAddr(bound.tcp(), nil)
	return fd, nil
}

func processFD(network string, family, sotype int, sysfd int32) (*netFD, error) {
	fd := newFD(network, int(sysfd))
	fd.family, fd.sotype = family, sotype
	if err := fd.init(); err != nil {
		fd.Close()
		return nil, err
	}
	return fd, nil
}

// accept adds to the stock function the addresses of both ends.
func (fd *netFD) accept() (*netFD, error) {
	accepted, err := fd.stockAccept()
	if err != nil || accepted.fakeNetFD != nil {
		return accepted, err
	}

	accepted.family, accepted.sotype, accepted.isConnected = fd.family, fd.sotype, true
	var local, remote processAddress
	if processAddresses(int32(accepted.pfd.Sysfd), unsafe.Pointer(&local), unsafe.Pointer(&remote)) == 0 {
		accepted.setAddr(local.tcp(), remote.tcp())
	}
	return accepted, nil
}

// processRawConn is what the control function of a dialer or a listener gets: it has no socket.
type processRawConn struct{}

func (processRawConn) Control(func(uintptr)) error    { return syscall.ENOTSUP }
func (processRawConn) Read(func(uintptr) bool) error  { return syscall.ENOTSUP }
func (processRawConn) Write(func(uintptr) bool) error { return syscall.ENOTSUP }

// asksTheHost reports whether a lookup is the host's. A resolver with its own way to a name server
// keeps it.
func (r *Resolver) asksTheHost() bool {
	return r == nil || r.Dial == nil
}

func (r *Resolver) lookupHost(ctx context.Context, host string) (addrs []string, err error) {
	if !r.asksTheHost() {
		return r.stockLookupHost(ctx, host)
	}
	found, err := processLookup(ctx, "ip", host)
	for _, addr := range found {
		addrs = append(addrs, addr.String())
	}
	return addrs, err
}

func (r *Resolver) lookupIP(ctx context.Context, network, host string) (addrs []IPAddr, err error) {
	if !r.asksTheHost() {
		return r.stockLookupIP(ctx, network, host)
	}
	return processLookup(ctx, network, host)
}

func (r *Resolver) lookupCNAME(ctx context.Context, name string) (string, error) {
	if !r.asksTheHost() {
		return r.stockLookupCNAME(ctx, name)
	}
	return "", noRecords("CNAME", name)
}

func (r *Resolver) lookupSRV(ctx context.Context, service, proto, name string) (string, []*SRV, error) {
	if !r.asksTheHost() {
		return r.stockLookupSRV(ctx, service, proto, name)
	}
	return "", nil, noRecords("SRV", name)
}

func (r *Resolver) lookupMX(ctx context.Context, name string) ([]*MX, error) {
	if !r.asksTheHost() {
		return r.stockLookupMX(ctx, name)
	}
	return nil, noRecords("MX", name)
}

func (r *Resolver) lookupNS(ctx context.Context, name string) ([]*NS, error) {
	if !r.asksTheHost() {
		return r.stockLookupNS(ctx, name)
	}
	return nil, noRecords("NS", name)
}

func (r *Resolver) lookupTXT(ctx context.Context, name string) ([]string, error) {
	if !r.asksTheHost() {
		return r.stockLookupTXT(ctx, name)
	}
	return nil, noRecords("TXT", name)
}

func (r *Resolver) lookupAddr(ctx context.Context, addr string) ([]string, error) {
	if !r.asksTheHost() {
		return r.stockLookupAddr(ctx, addr)
	}
	return nil, noRecords("PTR", addr)
}

func noRecords(kind, name string) error {
	return &DNSError{Err: "Operetta's host resolves addresses, no " + kind + " records", Name: name}
}

// processLookup asks the host for the addresses of a name, of the family at the network's end.
func processLookup(ctx context.Context, network, name string) (found []IPAddr, err error) {
	if !isDomainName(name) {
		return nil, newDNSError(errNoSuchHost, name, "")
	}
	if name == "localhost" || name == "localhost." {
		return processFamily(network, IPv4(127, 0, 0, 1), IPv6loopback), nil
	}

	text := []byte(name)
	sysfd := processResolve(unsafe.Pointer(unsafe.SliceData(text)), uint32(len(text)))
	if sysfd < 0 {
		return nil, newDNSError(os.NewSyscallError("resolve", syscall.Errno(-sysfd)), name, "")
	}
	pfd := poll.FD{Sysfd: int(sysfd), IsStream: true, ZeroReadIsEOF: true}
	if err := pfd.Init("tcp", true); err != nil {
		pfd.Close()
		return nil, newDNSError(err, name, "")
	}
	defer pfd.Close()

	if deadline, ok := ctx.Deadline(); ok {
		pfd.SetReadDeadline(deadline)
	}
	stop := context.AfterFunc(ctx, func() { pfd.SetReadDeadline(aLongTimeAgo) })
	defer stop()

	// A byte of status, and 16 bytes for each address.
	answer := make([]byte, 1+256*IPv6len)
	n, err := pfd.Read(answer)
	if err != nil {
		if ended := ctx.Err(); ended != nil {
			err = mapErr(ended)
		} else if err == io.EOF {
			err = errServerTemporarilyMisbehaving
		}
		return nil, newDNSError(err, name, "")
	}

	switch answer[0] {
	case 0:
	case 1:
		return nil, newDNSError(errNoSuchHost, name, "")
	default:
		return nil, newDNSError(errServerTemporarilyMisbehaving, name, "")
	}

	var all [][]byte
	for at := 1; at+IPv6len <= n; at += IPv6len {
		all = append(all, answer[at:at+IPv6len:at+IPv6len])
	}
	found = processFamily(network, all...)
	if len(found) == 0 {
		return nil, newDNSError(errNoSuchHost, name, "")
	}
	return found, nil
}

// processFamily returns the addresses that a network can use: tcp4 no IPv6, for example.
func processFamily(network string, addresses ...[]byte) (found []IPAddr) {
	for _, address := range addresses {
		ip, family := IP(address), byte('6')
		if v4 := ip.To4(); v4 != nil {
			ip, family = v4, '4'
		}
		if last := network[len(network)-1]; (last == '4' || last == '6') && last != family {
			continue
		}
		found = append(found, IPAddr{IP: ip})
	}
	return found
}
