package supervisor

import (
	"crypto/x509"
	"encoding/pem"
	"os"
	"strings"
	"testing"
	"time"
)

func newDir(t *testing.T) layout {
	t.Helper()
	dir := layout(t.TempDir())
	if err := dir.create(); err != nil {
		t.Fatal(err)
	}
	if err := ensureCredentials(dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestCredentialsStayTheSameAfterRestart(t *testing.T) {
	dir := newDir(t)
	files := []string{dir.ca(), dir.serverCert(), dir.serverKey(), dir.saKey(), dir.tokens()}
	before := map[string]string{}
	for _, file := range files {
		before[file] = read(t, file)
	}
	if err := ensureCredentials(dir); err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if read(t, file) != before[file] {
			t.Errorf("%s changed", file)
		}
	}
}

func TestSecretFilesAreReadableByOwnerOnly(t *testing.T) {
	dir := newDir(t)
	if err := writeKubeconfigs(dir, 20001); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{dir.kubeconfig(), dir.tokens(), dir.saKey(), dir.serverKey(), dir.componentKubeconfig(kwok)} {
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		if mode := info.Mode().Perm(); mode != 0o600 {
			t.Errorf("%s has mode %o", file, mode)
		}
	}
}

func TestServerCertificateCoversKubeconfigAddress(t *testing.T) {
	dir := newDir(t)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(read(t, dir.ca())))
	block, _ := pem.Decode([]byte(read(t, dir.serverCert())))
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"127.0.0.1", "kubernetes.default.svc"} {
		options := x509.VerifyOptions{Roots: roots, DNSName: name, CurrentTime: time.Now().AddDate(9, 0, 0)}
		if _, err := certificate.Verify(options); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestKubeconfigChangesOnlyWithPort(t *testing.T) {
	dir := newDir(t)
	contents := map[int]string{}
	for _, port := range []int{20001, 20002, 20001} {
		if err := writeKubeconfigs(dir, port); err != nil {
			t.Fatal(err)
		}
		text := read(t, dir.kubeconfig())
		if before, seen := contents[port]; seen && before != text {
			t.Errorf("two kubeconfigs for port %d", port)
		}
		contents[port] = text
	}
	if strings.ReplaceAll(contents[20001], "20001", "20002") != contents[20002] {
		t.Error("more than the port differs")
	}
}

func TestEachClientHasItsOwnToken(t *testing.T) {
	dir := newDir(t)
	seen := map[string]bool{}
	for _, user := range users {
		secret, err := token(dir, user.client)
		if err != nil {
			t.Fatal(err)
		}
		if len(secret) < 32 || seen[secret] {
			t.Errorf("%s: token %q is short or not its own", user.client, secret)
		}
		seen[secret] = true
	}
}
