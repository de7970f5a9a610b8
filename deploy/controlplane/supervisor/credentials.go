// Keys, certificates and tokens, made once per --dir and then kept, so that a
// kubeconfig of an earlier run and the ServiceAccount tokens in etcd stay valid.

package supervisor

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/csv"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"strings"
	"time"
)

// users maps each client to its user name. All are in system:masters; the names
// differ so that an audit log tells the tests' requests from the components'.
var users = []struct{ client, name string }{
	{"admin", "admin"},
	{controller, "system:kube-controller-manager"},
	{scheduler, "system:kube-scheduler"},
	{kwok, "system:kwok"},
}

// ensureCredentials creates the missing files and keeps the existing ones.
func ensureCredentials(dir layout) error {
	// The key is written before the certificates, and each file at once, so the next
	// start completes one that was killed half way.
	if missing(dir.serverKey()) || missing(dir.serverCert()) || missing(dir.ca()) {
		if err := writeCertificates(dir); err != nil {
			return err
		}
	}
	if missing(dir.saKey()) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			return err
		}
		text, err := keyPEM(key)
		if err != nil {
			return err
		}
		if err := writeFile(dir.saKey(), text); err != nil {
			return err
		}
	}
	if missing(dir.tokens()) {
		return writeFile(dir.tokens(), newTokens())
	}
	return nil
}

func missing(path string) bool {
	_, err := os.Stat(path)
	return errors.Is(err, fs.ErrNotExist)
}

// writeCertificates creates a CA, whose key is discarded, and the certificate it
// signs. The API server would create RSA keys itself, which is slower.
func writeCertificates(dir layout) error {
	now := time.Now()
	ca := &x509.Certificate{
		SerialNumber:          big.NewInt(now.UnixNano()),
		Subject:               pkix.Name{CommonName: fmt.Sprintf("operetta-test-ca@%d", now.Unix())},
		NotBefore:             now.Add(-time.Hour),
		NotAfter:              now.AddDate(10, 0, 0),
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	server := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano() + 1),
		Subject:      pkix.Name{CommonName: "kube-apiserver"},
		NotBefore:    ca.NotBefore,
		NotAfter:     ca.NotAfter,
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:     []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"},
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1), net.IPv4(10, 0, 0, 1)},
	}
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	serverKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, caKey.Public(), caKey)
	if err != nil {
		return err
	}
	serverDER, err := x509.CreateCertificate(rand.Reader, server, ca, serverKey.Public(), caKey)
	if err != nil {
		return err
	}
	keyText, err := keyPEM(serverKey)
	if err != nil {
		return err
	}
	caText := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: caDER})
	serverText := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: serverDER})
	// ca.crt is last: its presence shows that the three files belong together.
	return errors.Join(
		os.RemoveAll(dir.ca()),
		writeFile(dir.serverKey(), keyText),
		writeFile(dir.serverCert(), append(serverText, caText...)),
		writeFile(dir.ca(), caText),
	)
}

func keyPEM(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
}

// newTokens returns the file for --token-auth-file: token, user, uid, groups.
func newTokens() []byte {
	var text strings.Builder
	for _, user := range users {
		token := make([]byte, 32)
		_, _ = rand.Read(token) // never fails
		fmt.Fprintf(&text, "%s,%s,%s,system:masters\n", hex.EncodeToString(token), user.name, user.client)
	}
	return []byte(text.String())
}

// token returns a client's token. The uid in tokens.csv is the client's name.
func token(dir layout, client string) (string, error) {
	file, err := os.Open(dir.tokens())
	if err != nil {
		return "", err
	}
	defer file.Close()
	lines, err := csv.NewReader(file).ReadAll()
	if err != nil {
		return "", fmt.Errorf("%s: %w", dir.tokens(), err)
	}
	for _, line := range lines {
		if len(line) >= 3 && line[2] == client {
			return line[0], nil
		}
	}
	return "", fmt.Errorf("%s has no token for %s", dir.tokens(), client)
}

// writeKubeconfigs writes the users' and the components' kubeconfigs for port.
func writeKubeconfigs(dir layout, port int) error {
	ca, err := os.ReadFile(dir.ca())
	if err != nil {
		return err
	}
	for _, user := range users {
		secret, err := token(dir, user.client)
		if err != nil {
			return err
		}
		path := dir.componentKubeconfig(user.client)
		if user.client == "admin" {
			path = dir.kubeconfig()
		}
		if err := writeFile(path, kubeconfig(port, ca, user.client, secret)); err != nil {
			return err
		}
	}
	return nil
}

func kubeconfig(port int, ca []byte, user, token string) []byte {
	return fmt.Appendf(nil, `# Written by controlplane at each start. The token is all-powerful, on this cluster only.
apiVersion: v1
kind: Config
clusters:
- name: operetta
  cluster:
    server: https://%s
    certificate-authority-data: %s
users:
- name: %s
  user:
    token: %s
contexts:
- name: operetta
  context:
    cluster: operetta
    user: %s
current-context: operetta
`, loopback(port), base64.StdEncoding.EncodeToString(ca), user, token, user)
}
