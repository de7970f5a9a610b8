// Command json says what Kubernetes makes of JSON and YAML texts.
//
// It records the cases that apiserver/tests/data/go_json.jsonl holds. It reads
// cases, one JSON object a line, and writes them with Go's answers in place of
// those they have, so that a recorded file is also the input for the next
// recording:
//
//	go run ./json <old.jsonl >new.jsonl
//
// With -more it appends mutations of the cases that it read.
//
// With -serve it answers the fuzz targets, until its input ends. A request is a
// letter, j for JSON or y for YAML, the length of the text in four bytes, the
// first of them the highest, and the text. An answer is a length in the same
// form and a case without its text.
package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	gojson "encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
	goyaml "sigs.k8s.io/yaml/goyaml.v2"
)

// A testCase is a text and what Go makes of it.
type testCase struct {
	// Kind is "json" or "yaml".
	Kind string `json:"kind"`
	// Text is the input, or Base64 if it isn't UTF-8.
	Text   string `json:"text,omitempty"`
	Base64 []byte `json:"base64,omitempty"`

	// JSON is the text as a custom resource's JSON (of kind "json"), or
	// converted to JSON (of kind "yaml").
	JSON string `json:"json,omitempty"`
	// Stored is JSON after another round: as it is read back from etcd.
	Stored string `json:"stored,omitempty"`
	// Strict is what strict field validation reports.
	Strict []string `json:"strict,omitempty"`
	Error  string   `json:"error,omitempty"`

	// Ambiguous says that YAML has keys which are different there and the same
	// in JSON, such as 1 and "1". Go chooses one at random.
	Ambiguous bool `json:"ambiguous,omitempty"`
}

func main() {
	more := flag.Int("more", 0, "how many mutations to append")
	seed := flag.Int64("seed", 1, "chooses the mutations")
	serves := flag.Bool("serve", false, "answer requests of the fuzz targets")
	flag.Parse()

	var err error
	if *serves {
		err = serve(bufio.NewReader(os.Stdin), bufio.NewWriter(os.Stdout))
	} else {
		err = run(os.Stdin, os.Stdout, *more, *seed)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "json:", err)
		os.Exit(1)
	}
}

func run(in io.Reader, out io.Writer, more int, seed int64) error {
	var cases []testCase
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var c testCase
		if err := gojson.Unmarshal(lines.Bytes(), &c); err != nil {
			return fmt.Errorf("line %d: %w", len(cases)+1, err)
		}
		cases = append(cases, c)
	}
	if err := lines.Err(); err != nil {
		return err
	}

	random := rand.New(rand.NewSource(seed))
	for range more {
		cases = append(cases, mutate(random, cases[random.Intn(len(cases))]))
	}

	w := bufio.NewWriter(out)
	encoder := gojson.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	for _, c := range cases {
		if err := encoder.Encode(answer(c)); err != nil {
			return err
		}
	}
	return w.Flush()
}

// serve answers requests until there are no more.
func serve(in io.Reader, out *bufio.Writer) error {
	var header [5]byte
	for {
		switch _, err := io.ReadFull(in, header[:]); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("request: %w", err)
		}
		c := testCase{Kind: "json", Base64: make([]byte, binary.BigEndian.Uint32(header[1:]))}
		if header[0] == 'y' {
			c.Kind = "yaml"
		}
		if _, err := io.ReadFull(in, c.Base64); err != nil {
			return fmt.Errorf("request: %w", err)
		}

		answered := recovered(c)
		answered.Base64 = nil
		text, err := gojson.Marshal(answered)
		if err != nil {
			return err
		}
		if err := binary.Write(out, binary.BigEndian, uint32(len(text))); err != nil {
			return err
		}
		if _, err := out.Write(text); err != nil {
			return err
		}
		if err := out.Flush(); err != nil {
			return err
		}
	}
}

// recovered is answer with a panic as an error, which is what the API server
// makes of it.
func recovered(c testCase) (answered testCase) {
	defer func() {
		if reason := recover(); reason != nil {
			answered = testCase{Kind: c.Kind, Error: fmt.Sprint("panic: ", reason)}
		}
	}()
	return answer(c)
}

func (c testCase) input() []byte {
	if c.Base64 != nil {
		return c.Base64
	}
	return []byte(c.Text)
}

// answer returns a case with what Go makes of its input.
func answer(c testCase) testCase {
	answered := testCase{Kind: c.Kind, Text: c.Text, Base64: c.Base64}
	if c.Kind == "yaml" {
		converted, err := yaml.YAMLToJSON(c.input())
		if err != nil {
			answered.Error = err.Error()
			return answered
		}
		answered.JSON = string(converted)
		if _, err := yaml.YAMLToJSONStrict(c.input()); err != nil {
			answered.Strict = []string{err.Error()}
		}
		var value any
		if goyaml.Unmarshal(c.input(), &value) == nil {
			answered.Ambiguous = isAmbiguous(value)
		}
		return answered
	}

	var value any
	strict, err := json.UnmarshalStrict(c.input(), &value)
	if err != nil {
		answered.Error = err.Error()
		return answered
	}
	for _, err := range strict {
		answered.Strict = append(answered.Strict, err.Error())
	}

	written, err := gojson.Marshal(value)
	if err != nil {
		answered.Error = err.Error()
		return answered
	}
	answered.JSON = string(written)

	var again any
	if err := json.UnmarshalCaseSensitivePreserveInts(written, &again); err != nil {
		answered.Error = "read back: " + err.Error()
		return answered
	}
	stored, err := gojson.Marshal(again)
	if err != nil {
		answered.Error = "read back: " + err.Error()
		return answered
	}
	answered.Stored = string(stored)

	return answered
}

// isAmbiguous reports whether a mapping has keys that JSON writes alike.
func isAmbiguous(value any) bool {
	switch value := value.(type) {
	case []any:
		return slices.ContainsFunc(value, isAmbiguous)
	case map[any]any:
		names := make(map[string]bool, len(value))
		for key, field := range value {
			name := fmt.Sprint(key)
			if number, ok := key.(float64); ok {
				// As sigs.k8s.io/yaml writes it.
				name = strconv.FormatFloat(number, 'g', -1, 32)
				name = strings.NewReplacer("+Inf", ".inf", "-Inf", "-.inf", "NaN", ".nan").Replace(name)
			}
			if names[name] || isAmbiguous(field) {
				return true
			}
			names[name] = true
		}
	}
	return false
}

// pieces are what mutations insert: what means something in JSON, YAML or UTF-8.
var pieces = []string{
	`"`, `\`, `\u`, `\ud800`, `\udc00`, `{`, `}`, `[`, `]`, `:`, `: `, `,`, ` `, "\n", "\n  ", "\t",
	`-`, `- `, `+`, `.`, `0`, `9`, `0x`, `0o`, `0b`, `_`, `e5`, `E-7`, `true`, `null`, `yes`, `No`, `y`, `~`,
	`<<`, `&a `, `*a`, `!!str `, `!!int `, `!!float `, `'`, `|`, `>`, `#`, ` #`, `?`, `? `, `%`, `@`, "---\n", "...\n",
	"\xff", "\xe2\x82", "\xed\xa0\x80", "é", "😀", "\u2028", "\x00", "\x7f", "<&>",
}

func mutate(random *rand.Rand, of testCase) testCase {
	text := bytes.Clone(of.input())
	for range 1 + random.Intn(2) {
		at := random.Intn(len(text) + 1)
		switch end := min(len(text), at+1+random.Intn(3)); random.Intn(3) {
		case 0:
			text = append(text[:at:at], text[end:]...)
		case 1:
			piece := pieces[random.Intn(len(pieces))]
			text = append(text[:at:at], append([]byte(piece), text[at:]...)...)
		default:
			text = append(text[:end:end], text[at:]...)
		}
	}

	if !utf8.Valid(text) {
		return testCase{Kind: of.Kind, Base64: text}
	}
	return testCase{Kind: of.Kind, Text: string(text)}
}
