package operettatest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"time"

	"operetta.dev/sdk-go"
)

// callTime is the longest time that one call may take.
const callTime = time.Minute

// arguments are the arguments of a call.
type arguments map[string]any

// connection is a connection to the test server, which serves one cluster until it closes. Each side writes one JSON
// document per line: a request, then its response.
type connection struct {
	socket net.Conn
	reader *bufio.Reader
	// warnings are the API server's about the calls since they were last taken.
	warnings []string
}

// connect opens a connection to the server at an address, with a new cluster.
func connect(address string) (*connection, error) {
	token, host, found := strings.Cut(address, "@")
	if !found {
		return nil, fmt.Errorf("the address of the test server is %q: TOKEN@HOST:PORT is needed", address)
	}
	socket, err := net.Dial("tcp", host)
	if err != nil {
		return nil, fmt.Errorf("connecting to the test server: %w", err)
	}
	c := &connection{socket: socket, reader: bufio.NewReader(socket)}
	if _, err := c.call("open", arguments{"token": token}); err != nil {
		_ = socket.Close()
		return nil, err
	}
	return c, nil
}

// response is a response of the test server: one of OK, Error and Failure is set.
type response struct {
	OK      json.RawMessage
	Error   *wireError
	Failure string
	// Warnings are the API server's about the call.
	Warnings []string
}

// wireError is a case of the contract's `types.error`.
type wireError struct {
	Type   string
	Status struct {
		Code              int
		Reason, Message   string
		Causes            []operetta.Cause
		RetryAfterSeconds int
	}
}

// call sends a request and returns the result. The error is an *operetta.APIError if the API server rejects the request,
// and any other error if the request makes no sense or the connection fails.
func (c *connection) call(name string, arguments arguments) (json.RawMessage, error) {
	arguments["call"] = name
	var line bytes.Buffer
	encoder := json.NewEncoder(&line)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(arguments); err != nil {
		return nil, fmt.Errorf("the call %s of the test server cannot be written as JSON: %w", name, err)
	}
	var answer response
	err := c.socket.SetDeadline(time.Now().Add(callTime))
	if err == nil {
		_, err = c.socket.Write(line.Bytes())
	}
	var text []byte
	if err == nil {
		text, err = c.reader.ReadBytes('\n')
	}
	if err == nil {
		err = json.Unmarshal(text, &answer)
	}
	c.warnings = append(c.warnings, answer.Warnings...)
	switch {
	case err != nil:
		_ = c.socket.Close() // a later call must not take this response for its own
		return nil, fmt.Errorf("the call %s of the test server failed: %w", name, err)
	case answer.Failure != "":
		return nil, fmt.Errorf("test server: %s", answer.Failure)
	case answer.Error != nil:
		return nil, answer.Error.apiError()
	}
	return answer.OK, nil
}

// apiError returns the SDK's form of an error.
func (e *wireError) apiError() *operetta.APIError {
	kind := operetta.NotFound
	for kind < operetta.Other && kind.String() != e.Type {
		kind++
	}
	return &operetta.APIError{Kind: kind, Status: operetta.Status{
		Code: e.Status.Code, Reason: e.Status.Reason, Message: e.Status.Message, Causes: e.Status.Causes,
		RetryAfter: time.Duration(e.Status.RetryAfterSeconds) * time.Second,
	}}
}
