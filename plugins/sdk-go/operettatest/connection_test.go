package operettatest

import (
	"bufio"
	"errors"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"operetta.dev/sdk-go"
)

// answered returns the error of a call that a server answers with a text.
func answered(t *testing.T, answer string) error {
	t.Helper()
	ours, theirs := net.Pipe()
	t.Cleanup(func() { _ = ours.Close() })
	go func() {
		_, _ = bufio.NewReader(theirs).ReadBytes('\n')
		_, _ = theirs.Write([]byte(answer))
		_ = theirs.Close()
	}()
	c := &connection{socket: ours, reader: bufio.NewReader(ours)}
	_, err := c.call("get", arguments{})
	return err
}

func TestEachErrorOfTheContractHasItsKind(t *testing.T) {
	for kind := operetta.NotFound; kind <= operetta.Other; kind++ {
		err := answered(t, `{"error":{"type":"`+kind.String()+`","status":{"code":429,"reason":"R","message":"why",`+
			`"causes":[{"reason":"FieldValueInvalid","message":"no","field":"spec.x"}],"retryAfterSeconds":7}}}`+"\n")
		var api *operetta.APIError
		if !errors.As(err, &api) || api.Kind != kind || api.Status.Code != 429 || api.Status.Reason != "R" ||
			api.Status.Message != "why" || api.Status.RetryAfter != 7*time.Second ||
			len(api.Status.Causes) != 1 || api.Status.Causes[0] != (operetta.Cause{Reason: "FieldValueInvalid", Message: "no", Field: "spec.x"}) {
			t.Errorf("%s: got %#v", kind, err)
		}
	}
}

func TestFailureOfTheServerIsNoAPIError(t *testing.T) {
	for answer, want := range map[string]string{
		"{\"failure\":\"unknown call get\"}\n": "test server: unknown call get",
		"garbage\n":                            "invalid character",
		"":                                     "EOF",
	} {
		err := answered(t, answer)
		if api := (*operetta.APIError)(nil); err == nil || errors.As(err, &api) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", answer, err, want)
		}
	}
}

func TestMalformedAddressIsAnError(t *testing.T) {
	if _, err := connect("127.0.0.1:1"); err == nil || !strings.Contains(err.Error(), "TOKEN@HOST:PORT is needed") {
		t.Errorf("got %v", err)
	}
}

func TestProgramThatIsNoServerIsAnError(t *testing.T) {
	program := t.TempDir() + "/operetta"
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho \"no such flag: $2\" >&2\nexit 3\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	_, err := startServer(program)
	for _, want := range []string{"test --serve` failed: exit status 3", "no such flag: --serve"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
