package codec

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"
)

type word string

// upper writes and reads itself; an empty one fails.
type upper struct{ value string }

func (u upper) MarshalJSON() ([]byte, error) {
	if u.value == "" {
		return nil, strconv.ErrSyntax
	}
	return []byte(` { "up" : "<` + strings.ToUpper(u.value) + `>" } `), nil
}

func (u *upper) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		u.value = "none"
		return nil
	}
	var has struct{ Up string }
	err := json.Unmarshal(text, &has)
	u.value = has.Up
	return err
}

// level has a text form.
type level int

func (l level) MarshalText() ([]byte, error) { return []byte("level-" + strconv.Itoa(int(l))), nil }
func (l *level) UnmarshalText(text []byte) error {
	value, err := strconv.Atoi(strings.TrimPrefix(string(text), "level-"))
	*l = level(value)
	return err
}

type base struct {
	Kind    string `json:"kind,omitempty"`
	Version string `json:"apiVersion,omitempty"`
}

type inner struct {
	Name  string  `json:"name"`
	Next  *inner  `json:"next,omitempty"`
	Items []inner `json:"items,omitempty"`
}

// clash has two fields of one name; the outer one counts.
type clash struct {
	left
	A int `json:"a"`
	C int `json:"c"`
}

type left struct {
	A string `json:"a"`
}

type quoted struct {
	Count int `json:"count,string"`
}

type stamp struct{ time.Time }

// object has a field of each form.
type object struct {
	base     `json:",inline"`
	Text     string            `json:"text"`
	Word     word              `json:"word,omitempty"`
	Yes      bool              `json:"yes,omitempty"`
	Int      int               `json:"int,omitempty"`
	Int8     int8              `json:"int8"`
	Int16    int16             `json:"int16,omitempty"`
	Int32    *int32            `json:"int32,omitempty"`
	Uint8    uint8             `json:"uint8,omitempty"`
	Uint32   uint32            `json:"uint32,omitempty"`
	Uint64   uint64            `json:"uint64,omitempty"`
	Float    float64           `json:"float,omitempty"`
	Half     float32           `json:"half,omitempty"`
	Bytes    []byte            `json:"bytes,omitempty"`
	Any      any               `json:"any"`
	Strings  []string          `json:"strings,omitempty"`
	Words    []word            `json:"words"`
	Labels   map[string]string `json:"labels,omitempty"`
	Tags     map[word]word     `json:"tags"`
	Tree     map[string]any    `json:"tree,omitempty"`
	Data     map[string][]byte `json:"data,omitempty"`
	Numbers  map[string]int    `json:"numbers,omitempty"`
	Levels   map[level]string  `json:"levels,omitempty"`
	Trees    []map[string]any  `json:"trees,omitempty"`
	List     []any             `json:"list,omitempty"`
	Inner    inner             `json:"inner"`
	Inners   []inner           `json:"inners,omitempty"`
	Pointers []*inner          `json:"pointers,omitempty"`
	Custom   *upper            `json:"custom,omitempty"`
	Customs  []upper           `json:"customs,omitempty"`
	Stamp    stamp             `json:"stamp,omitzero"`
	Time     *time.Time        `json:"time,omitzero"`
	Level    level             `json:"level,omitzero"`
	Raw      json.RawMessage   `json:"raw,omitempty"`
	Number   json.Number       `json:"number,omitempty"`
	Array    [2]int            `json:"array"`
	Clash    clash             `json:"clash"`
	Quoted   quoted            `json:"quoted"`
	Skipped  string            `json:"-"`
	Untagged string
	hidden   string
}

const whole = `{"kind":"K","apiVersion":"v1","text":"a \"b\" \\ \/ \u00e9 \n <&> é","word":"w","yes":true,"int":-12,"int8":127,
"int16":-3,"int32":0,"uint8":255,"uint32":7,"uint64":18446744073709551615,"float":1.5e3,"half":0.1,"bytes":"aGVsbG8=",
"any":{"a":[1,-0,0,2.5,1e21,123456789012345678,null,true,false,"x",[],{}]},"strings":["a",null,"b"],"words":[],
"labels":{"b":"2","a":"1"},"tags":{"x":"y"},"tree":{"z":{"y":[{"x":1}]},"a":null},"data":{"k":"AAEC"},"numbers":{"n":3},
"levels":{"level-2":"two"},"trees":[{"a":1},null],"list":["a",1],"inner":{"name":"n","next":{"name":"m"},"unknown":[{"a":[1]}]},
"inners":[{"name":"1"},{"name":"2"},{"name":"3"},{"name":"4","items":[{"name":"5"}]}],"pointers":[{"name":"p"},null],
"custom":{"up":"c"},"customs":[{"up":"d"},null],"stamp":"2026-01-01T00:00:00Z","time":"2026-01-01T00:00:00.5+01:00",
"level":"level-3","raw": {"a" : 1},"number":12.50,"array":[1,2,3],"clash":{"a":1,"c":2},"quoted":{"count":"5"},
"Skipped":"s","untagged":"u","hidden":"h","unknown":{"a":["x"]}}`

// texts are texts for an object; each is tried in its place in `whole`, too.
var texts = []string{
	whole, `{}`, ` { } `, `null`, `[]`, `1`, `"a"`, ``, `{`, `{"text":}`, `{"text":"a",}`, `{"text":"a"} x`, `{"text":"a"}}`,
	`{"text":"a\u0000"}`, "{\"text\":\"a\x00\"}", "{\"text\":\"a\xff\"}", `{"text":"\ud800"}`, `{"text":"\ud83d\ude00"}`,
	`{"text":"\x"}`, `{"text":"\u12"}`, `{"text":"a`, `{"text":"\`, `{"text":1}`, `{"text":null}`, `{"TEXT":"a"}`,
	`{"text":"a","text":null}`, `{"text":"a","Text":"b"}`, `{"int":1.0}`, `{"int":01}`, `{"int":-}`, `{"int":1e2}`, `{"int":-0}`,
	`{"int":9223372036854775807}`, `{"int":9223372036854775808}`, `{"int8":128}`, `{"int8":-128}`, `{"int8":-129}`,
	`{"uint8":256}`, `{"uint8":-1}`, `{"uint64":-1}`, `{"uint64":18446744073709551616}`, `{"float":1e400}`, `{"float":-0}`, `{"float":1.}`,
	`{"float":.5}`, `{"float":1e}`, `{"half":1e39}`, `{"bytes":"!"}`, `{"bytes":[1,2]}`, `{"bytes":""}`, `{"any":1e400}`,
	`{"any":[1 2]}`, `{"any":{"a" 1}}`, `{"any":{1:2}}`, `{"any":t}`, `{"any":nul}`, `{"inner":{"name":"a"},"inner":{"next":{}}}`,
	`{"inner":{"next":{"name":"a"}},"inner":{"next":{"name":"b"}}}`, `{"inners":[{"name":"a"}],"inners":[{}]}`,
	`{"inner":{"next":{"name":"a"}},"inner":{"next":{}}}`, `{"any":-0}`, `{"any":[-0,-1]}`,
	`{"tree":{"a":1},"tree":{"b":2}}`, `{"labels":{"a":"1"},"labels":{"b":"2"}}`, `{"labels":{"a":"1","a":"2"}}`,
	`{"labels":{"a":null}}`, `{"labels":{"a":1}}`, `{"labels":null,"tree":null,"any":null,"int32":null,"strings":null}`,
	`{"custom":null}`, `{"custom":{"up":1}}`, `{"time":"yesterday"}`, `{"stamp":null}`, `{"level":"x"}`, `{"level":null}`,
	`{"number":"1"}`, `{"number":"x"}`, `{"array":[1]}`, `{"array":null}`, `{"quoted":{"count":5}}`, `{"clash":{"a":1}}`,
	`{"inner":[]}`, `{"inners":{}}`, `{"strings":[1]}`, `{"yes":"true"}`, `{"yes":null}`, `{"K` + "\u0131" + `nd":"x"}`,
	`{"` + "\u212a" + `ind":"kelvin"}`, `{"any":` + strings.Repeat("[", 20000) + `}`,
	`{"any":` + strings.Repeat("[", 600) + strings.Repeat("]", 600) + `}`, `{"int":1,"int":2}`, `{"int" : 1 , "text" : "b" }`,
}

// check compares the codec's results for a text with those of encoding/json. It reports whether the codec gave up.
func check(t *testing.T, text string) (read, wrote bool) {
	t.Helper()
	var want, got object
	wantErr := json.Unmarshal([]byte(text), &want)
	if read = Read([]byte(text), &got); !read {
		return false, false
	}
	if wantErr != nil {
		t.Fatalf("%.300q: read %+v, but encoding/json reports %v", text, got, wantErr)
	}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("%.300q:\nread %+v\nwant %+v", text, got, want)
	}
	wantText, wantErr := json.Marshal(&want)
	// -0 is equal to 0.
	if again, _ := json.Marshal(&got); !bytes.Equal(again, wantText) {
		t.Fatalf("%.300q: read %s\nwant %s", text, again, wantText)
	}
	gotText, wrote := Append(nil, &want)
	if wrote && (wantErr != nil || !bytes.Equal(gotText, wantText)) {
		t.Fatalf("%.300q:\nwrote %s\nwant  %s (%v)", text, gotText, wantText, wantErr)
	}
	return read, wrote
}

func TestResultsAreThoseOfEncodingJSON(t *testing.T) {
	for _, text := range texts {
		check(t, text)
	}
}

// Otherwise the test above would compare nothing.
func TestKnownValuesAreReadAndWritten(t *testing.T) {
	for text, wrote := range map[string]bool{
		whole: true, `{}`: true, ` { "int" : 1 } `: true,
		`{"inner":{"name":"a"},"inner":{"name":"b"}}`: true, `{"labels":{"a":"1","a":"2"}}`: true, `{"custom":{"up":""}}`: false,
	} {
		if gotRead, gotWrote := check(t, text); !gotRead || gotWrote != wrote {
			t.Errorf("%.100q: read %v, wrote %v", text, gotRead, gotWrote)
		}
	}
}

func TestRandomTextsAreReadAsByEncodingJSON(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	parts := []string{`"`, `\`, `{`, `}`, `[`, `]`, `,`, `:`, `null`, `1`, `-`, `.`, `e5`, ` `, "\xff", `\u0041`, `"text":`, `"A"`, `{"a":1}`}
	read := 0
	for range 20000 {
		text := whole
		for range 1 + random.IntN(3) {
			from := random.IntN(len(text))
			to := min(len(text), from+random.IntN(4))
			text = text[:from] + parts[random.IntN(len(parts))] + text[to:]
		}
		if ok, _ := check(t, text); ok {
			read++
		}
	}
	if read < 1000 {
		t.Errorf("only %d texts were read: the others prove nothing", read)
	}
}

func TestStringsAreWrittenAsByEncodingJSON(t *testing.T) {
	for _, text := range []string{"", "a", "\"\\\b\f\n\r\t\x00\x1f\x7f", "<>&", "é\u2028\u2029\ufffd", "a\xffb\xe2\x80", "😀"} {
		want, _ := json.Marshal(text)
		if got, ok := Append(nil, &text); !ok || string(got) != string(want) {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
	}
}

func TestValuesOfAnyTypeAreWrittenAsByEncodingJSON(t *testing.T) {
	type tree map[string]any
	for _, value := range []any{
		nil, 1, int8(2), int64(-3), uint(4), 1.5, 1e15, -0.0, 1e300, float32(0.1), true, "a", json.Number("1.50"), json.Number(""),
		json.Number("x"), []string{"a"}, []string(nil), map[string]string{"b": "1", "a": "<"}, map[string]int{"b": 1, "a": 2},
		[]int{1}, inner{Name: "a"}, &inner{Name: "a"}, (*inner)(nil), upper{"a"}, &upper{"a"}, &upper{}, time.Unix(0, 0), tree{"a": 1},
		[]any(nil), map[string]any(nil), []byte("a"), func() {}, level(1), [1]any{nil}, struct{}{},
	} {
		value := map[string]any{"b": value, "a": []any{value, value}}
		want, err := json.Marshal(value)
		if got, ok := Append(nil, value); ok != (err == nil) || ok && string(got) != string(want) {
			t.Errorf("%v: got %s, want %s (%v)", value, got, want, err)
		}
	}
}

func TestCycleIsLeftToEncodingJSON(t *testing.T) {
	cycle := &inner{}
	cycle.Next = cycle
	tree := map[string]any{}
	tree["a"] = []any{tree}
	for _, value := range []any{cycle, tree} {
		if _, ok := Append(nil, value); ok {
			t.Errorf("%T was written", value)
		}
	}
}

func TestReadMapKeepsNumbers(t *testing.T) {
	got, ok := ReadMap([]byte(`{"a":[12345678901234567890,1.50],"b":"x"}`))
	want := map[string]any{"a": []any{json.Number("12345678901234567890"), json.Number("1.50")}, "b": "x"}
	if !ok || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v", got)
	}
	for _, text := range []string{`null`, `[]`, `{} x`, `{"a":01}`, ``} {
		if got, ok := ReadMap([]byte(text)); ok {
			t.Errorf("%s: got %v", text, got)
		}
	}
}

func TestReadObjectSeparatesKnownMembers(t *testing.T) {
	var known base
	others, ok := ReadObject([]byte(`{"kind":"K","spec":{"a":1},"apiVersion":"v1"}`), &known)
	want := map[string]any{"spec": map[string]any{"a": json.Number("1")}}
	if !ok || known != (base{"K", "v1"}) || !reflect.DeepEqual(others, want) {
		t.Errorf("got %v, %v", known, others)
	}
	for _, text := range []string{`{"kind":"a","kind":"b"}`, `{"Kind":"a"}`, `{"kind":1}`, `{} x`, `[]`} {
		if others, ok := ReadObject([]byte(text), &base{}); ok {
			t.Errorf("%s: got %v", text, others)
		}
	}
}

func TestHasFindsMembers(t *testing.T) {
	for text, want := range map[string][3]bool{
		`{}`: {false, false, true}, `{"a":1}`: {true, false, true}, ` {"c":{"a":1,"b":2},"B":""}`: {false, true, true},
		`{"a":null,"b":false}`: {false, true, true}, `[]`: {}, `{"c":}`: {}, `null`: {},
	} {
		if a, b, ok := Has([]byte(text), "a", "b"); [3]bool{a, b, ok} != want {
			t.Errorf("%s: got %v, %v, %v", text, a, b, ok)
		}
	}
}
