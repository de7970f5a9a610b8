//! The functions of CEL in rules: the standard ones, and the libraries of Kubernetes 1.36.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use super::types::Type;

/// A form of a function.
#[derive(Debug)]
pub struct Overload {
    /// Says that the first argument stands before the dot.
    pub is_method: bool,
    /// The types of the arguments.
    pub args: Vec<Type>,
    /// The type of the result.
    pub result: Type,
}

/// The declarations, one a line: `name(arguments) result`, and `type.name(arguments) result` for methods.
const DECLARATIONS: &str = "
!_(bool) bool
-_(int) int
-_(double) double
_==_(A, A) bool
_!=_(A, A) bool
_?_:_(bool, A, A) A
_+_(int, int) int
_+_(uint, uint) uint
_+_(double, double) double
_+_(string, string) string
_+_(bytes, bytes) bytes
_+_(list<A>, list<A>) list<A>
_+_(timestamp, duration) timestamp
_+_(duration, timestamp) timestamp
_+_(duration, duration) duration
_-_(int, int) int
_-_(uint, uint) uint
_-_(double, double) double
_-_(timestamp, timestamp) duration
_-_(timestamp, duration) timestamp
_-_(duration, duration) duration
_*_(int, int) int
_*_(uint, uint) uint
_*_(double, double) double
_/_(int, int) int
_/_(uint, uint) uint
_/_(double, double) double
_%_(int, int) int
_%_(uint, uint) uint
@in(A, list<A>) bool
@in(A, map<A, B>) bool
_[_](list<A>, int) A
_[_](map<A, B>, A) B
_[_](optional<list<A>>, int) optional<A>
_[_](optional<map<A, B>>, A) optional<B>
_[?_](list<A>, int) optional<A>
_[?_](map<A, B>, A) optional<B>
_[?_](optional<list<A>>, int) optional<A>
_[?_](optional<map<A, B>>, A) optional<B>
size(string) int
size(bytes) int
size(list<A>) int
size(map<A, B>) int
string.size() int
bytes.size() int
list<A>.size() int
map<A, B>.size() int
bool(bool) bool
bool(string) bool
int(int) int
int(uint) int
int(double) int
int(string) int
int(timestamp) int
uint(uint) uint
uint(int) uint
uint(double) uint
uint(string) uint
double(double) double
double(int) double
double(uint) double
double(string) double
string(string) string
string(bool) string
string(int) string
string(uint) string
string(double) string
string(bytes) string
string(timestamp) string
string(duration) string
bytes(bytes) bytes
bytes(string) bytes
timestamp(timestamp) timestamp
timestamp(string) timestamp
timestamp(int) timestamp
duration(duration) duration
duration(string) duration
dyn(A) dyn
type(A) type<A>
matches(string, string) bool
string.matches(string) bool
string.startsWith(string) bool
string.endsWith(string) bool
string.contains(string) bool
timestamp.getFullYear() int
timestamp.getFullYear(string) int
timestamp.getMonth() int
timestamp.getMonth(string) int
timestamp.getDayOfYear() int
timestamp.getDayOfYear(string) int
timestamp.getDayOfMonth() int
timestamp.getDayOfMonth(string) int
timestamp.getDate() int
timestamp.getDate(string) int
timestamp.getDayOfWeek() int
timestamp.getDayOfWeek(string) int
timestamp.getHours() int
timestamp.getHours(string) int
duration.getHours() int
timestamp.getMinutes() int
timestamp.getMinutes(string) int
duration.getMinutes() int
timestamp.getSeconds() int
timestamp.getSeconds(string) int
duration.getSeconds() int
timestamp.getMilliseconds() int
timestamp.getMilliseconds(string) int
duration.getMilliseconds() int
string.charAt(int) string
string.indexOf(string) int
string.indexOf(string, int) int
string.lastIndexOf(string) int
string.lastIndexOf(string, int) int
string.lowerAscii() string
string.upperAscii() string
string.replace(string, string) string
string.replace(string, string, int) string
string.split(string) list<string>
string.split(string, int) list<string>
string.substring(int) string
string.substring(int, int) string
string.trim() string
string.format(list<dyn>) string
strings.quote(string) string
list<string>.join() string
list<string>.join(string) string
string.find(string) string
string.findAll(string) list<string>
string.findAll(string, int) list<string>
list<int>.isSorted() bool
list<uint>.isSorted() bool
list<double>.isSorted() bool
list<bool>.isSorted() bool
list<string>.isSorted() bool
list<bytes>.isSorted() bool
list<timestamp>.isSorted() bool
list<duration>.isSorted() bool
list<int>.sum() int
list<uint>.sum() uint
list<double>.sum() double
list<duration>.sum() duration
list<int>.min() int
list<uint>.min() uint
list<double>.min() double
list<bool>.min() bool
list<string>.min() string
list<bytes>.min() bytes
list<timestamp>.min() timestamp
list<duration>.min() duration
list<int>.max() int
list<uint>.max() uint
list<double>.max() double
list<bool>.max() bool
list<string>.max() string
list<bytes>.max() bytes
list<timestamp>.max() timestamp
list<duration>.max() duration
list<A>.indexOf(A) int
list<A>.lastIndexOf(A) int
list<A>.slice(int, int) list<A>
list<A>.distinct() list<A>
list<A>.reverse() list<A>
list<A>.first() optional<A>
list<A>.last() optional<A>
list<int>.sort() list<int>
list<uint>.sort() list<uint>
list<double>.sort() list<double>
list<bool>.sort() list<bool>
list<string>.sort() list<string>
list<bytes>.sort() list<bytes>
list<timestamp>.sort() list<timestamp>
list<duration>.sort() list<duration>
list<list<A>>.flatten() list<A>
list<dyn>.flatten(int) list<dyn>
lists.range(int) list<int>
sets.contains(list<A>, list<A>) bool
sets.equivalent(list<A>, list<A>) bool
sets.intersects(list<A>, list<A>) bool
url(string) kubernetes.URL
isURL(string) bool
kubernetes.URL.getScheme() string
kubernetes.URL.getHost() string
kubernetes.URL.getHostname() string
kubernetes.URL.getPort() string
kubernetes.URL.getEscapedPath() string
kubernetes.URL.getQuery() map<string, list<string>>
ip(string) net.IP
isIP(string) bool
ip.isCanonical(string) bool
net.IP.family() int
net.IP.isUnspecified() bool
net.IP.isLoopback() bool
net.IP.isLinkLocalMulticast() bool
net.IP.isLinkLocalUnicast() bool
net.IP.isGlobalUnicast() bool
cidr(string) net.CIDR
isCIDR(string) bool
net.CIDR.containsIP(string) bool
net.CIDR.containsIP(net.IP) bool
net.CIDR.containsCIDR(string) bool
net.CIDR.containsCIDR(net.CIDR) bool
net.CIDR.ip() net.IP
net.CIDR.masked() net.CIDR
net.CIDR.prefixLength() int
string(net.IP) string
string(net.CIDR) string
quantity(string) kubernetes.Quantity
isQuantity(string) bool
kubernetes.Quantity.isInteger() bool
kubernetes.Quantity.asInteger() int
kubernetes.Quantity.asApproximateFloat() double
kubernetes.Quantity.sign() int
kubernetes.Quantity.add(kubernetes.Quantity) kubernetes.Quantity
kubernetes.Quantity.add(int) kubernetes.Quantity
kubernetes.Quantity.sub(kubernetes.Quantity) kubernetes.Quantity
kubernetes.Quantity.sub(int) kubernetes.Quantity
kubernetes.Quantity.isLessThan(kubernetes.Quantity) bool
kubernetes.Quantity.isGreaterThan(kubernetes.Quantity) bool
kubernetes.Quantity.compareTo(kubernetes.Quantity) int
semver(string) kubernetes.Semver
semver(string, bool) kubernetes.Semver
isSemver(string) bool
isSemver(string, bool) bool
kubernetes.Semver.major() int
kubernetes.Semver.minor() int
kubernetes.Semver.patch() int
kubernetes.Semver.isLessThan(kubernetes.Semver) bool
kubernetes.Semver.isGreaterThan(kubernetes.Semver) bool
kubernetes.Semver.compareTo(kubernetes.Semver) int
format.named(string) optional<kubernetes.NamedFormat>
format.dns1123Label() kubernetes.NamedFormat
format.dns1123Subdomain() kubernetes.NamedFormat
format.dns1035Label() kubernetes.NamedFormat
format.qualifiedName() kubernetes.NamedFormat
format.dns1123LabelPrefix() kubernetes.NamedFormat
format.dns1123SubdomainPrefix() kubernetes.NamedFormat
format.dns1035LabelPrefix() kubernetes.NamedFormat
format.labelValue() kubernetes.NamedFormat
format.uri() kubernetes.NamedFormat
format.uuid() kubernetes.NamedFormat
format.byte() kubernetes.NamedFormat
format.date() kubernetes.NamedFormat
format.datetime() kubernetes.NamedFormat
kubernetes.NamedFormat.validate(string) optional<list<string>>
optional.of(A) optional<A>
optional.ofNonZeroValue(A) optional<A>
optional.none() optional<A>
optional<A>.hasValue() bool
optional<A>.value() A
optional<A>.or(optional<A>) optional<A>
optional<A>.orValue(A) A
authz.path(string) authz
authz.group(string) authz
authz.resource(string) authz
authz.subresource(string) authz
authz.namespace(string) authz
authz.name(string) authz
authz.serviceAccount(string, string) authz
authz.check(string) authz
authz.allowed() bool
authz.reason() string
authz.errored() bool
authz.error() string
";

/// Names before a dot that belong to a function's name.
const NAMESPACES: [&str; 6] = ["strings", "lists", "sets", "format", "optional", "ip"];
const OPAQUE: [&str; 7] = [
    "kubernetes.NamedFormat",
    "kubernetes.Quantity",
    "kubernetes.Semver",
    "kubernetes.URL",
    "net.CIDR",
    "net.IP",
    "authz",
];

static TABLE: LazyLock<HashMap<String, Vec<Overload>>> = LazyLock::new(|| {
    let mut table: HashMap<String, Vec<Overload>> = HashMap::new();
    for line in DECLARATIONS.lines().filter(|line| !line.is_empty()) {
        let (name, overload) = parse_line(line);
        table.entry(name).or_default().push(overload);
    }
    add_comparisons(&mut table);
    table
});

/// Numbers of different types compare; otherwise both sides have the same type.
fn add_comparisons(table: &mut HashMap<String, Vec<Overload>>) {
    let numbers = [Type::Int, Type::Uint, Type::Double];
    let others = [Type::Bool, Type::String, Type::Bytes, Type::Timestamp, Type::Duration];
    for name in ["_<_", "_<=_", "_>_", "_>=_"] {
        let pairs = numbers.iter().flat_map(|left| numbers.iter().map(move |right| (left, right)));
        for (left, right) in pairs.chain(others.iter().map(|ty| (ty, ty))) {
            let overload = Overload { is_method: false, args: vec![left.clone(), right.clone()], result: Type::Bool };
            table.entry(name.to_owned()).or_default().push(overload);
        }
    }
}

/// Returns the forms of a function.
pub fn overloads(name: &str) -> Option<&'static [Overload]> {
    TABLE.get(name).map(Vec::as_slice)
}

fn parse_line(line: &str) -> (String, Overload) {
    let open = line.rfind('(').unwrap_or(line.len());
    let (head, rest) = line.split_at(open);
    let (inside, result) = rest.trim_start_matches('(').split_once(')').unwrap_or((rest, ""));
    let mut args: Vec<Type> = split(inside).into_iter().map(parse_type).collect();
    let receiver = head.rsplit_once('.').filter(|(before, name)| {
        let is_function = NAMESPACES.contains(before) && !(*before == "ip" && *name != "isCanonical");
        !is_function && !before.is_empty()
    });
    let (is_method, name) = match receiver {
        Some((before, name)) => {
            args.insert(0, parse_type(before));
            (true, name)
        }
        None => (false, head),
    };
    (name.to_owned(), Overload { is_method, args, result: parse_type(result.trim()) })
}

/// Splits types at the commas that are not inside of brackets.
fn split(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut depth = 0;
    let mut start = 0;
    for (at, c) in text.char_indices() {
        match c {
            '<' => depth += 1,
            '>' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    if !text[start..].trim().is_empty() {
        parts.push(text[start..].trim());
    }
    parts
}

fn parse_type(text: &str) -> Type {
    if let Some((name, inner)) = text.strip_suffix('>').and_then(|text| text.split_once('<')) {
        let mut inner = split(inner).into_iter().map(|part| Arc::new(parse_type(part)));
        let mut next = || inner.next().unwrap_or_else(|| Arc::new(Type::Dyn));
        return match name {
            "list" => Type::List(next()),
            "map" => Type::Map(next(), next()),
            "type" => Type::Type(next()),
            _ => Type::Optional(next()),
        };
    }
    match text {
        "A" => Type::Param(0),
        "B" => Type::Param(1),
        "bool" => Type::Bool,
        "int" => Type::Int,
        "uint" => Type::Uint,
        "double" => Type::Double,
        "string" => Type::String,
        "bytes" => Type::Bytes,
        "timestamp" => Type::Timestamp,
        "duration" => Type::Duration,
        other => OPAQUE.iter().find(|name| **name == other).map_or(Type::Dyn, |name| Type::Opaque(name)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_each_declaration() {
        for line in DECLARATIONS.lines().filter(|line| !line.is_empty()) {
            let (name, overload) = parse_line(line);
            let mut shown = overload.args.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
            shown.push_str(&overload.result.to_string());
            let dynamic = line.contains("dyn");
            assert_eq!(shown.contains("dyn"), dynamic, "{line}: {name} {shown}");
        }
        let size = overloads("size").expect("size");
        assert_eq!(size.iter().filter(|overload| overload.is_method).count(), 4);
        assert_eq!(overloads("_<_").expect("less").len(), 14);
        assert!(overloads("strings.quote").is_some() && overloads("quote").is_none());
    }
}
