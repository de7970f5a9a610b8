//! Parses expressions, and recognises macros.

use super::ast::{Comprehension, Expr, Issue, Literal, MacroKind, Node};
use super::token::{Kind, Token, tokenize};
use super::words::is_reserved;

/// The deepest nesting of expressions.
const MAX_DEPTH: usize = 96;
/// The greatest height of an expression.
const MAX_HEIGHT: usize = 250;
const START: &str = "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, \
IDENTIFIER}";

/// Parses an expression.
///
/// # Errors
/// Returns the mistakes in it.
pub fn parse(text: &str) -> Result<Expr, Vec<Issue>> {
    let (tokens, issues) = tokenize(text);
    let mut parser = Parser { tokens, next: 0, depth: 0, issues };
    match parser.expression() {
        Ok(_) if !parser.at_end() => {
            let token = parser.peek().clone();
            let message = format!("Syntax error: extraneous input '{}' expecting <EOF>", token.text);
            parser.issues.push(Issue { at: token.at, message });
            Err(parser.issues)
        }
        Ok(expr) if parser.issues.is_empty() => Ok(expr),
        Ok(_) => Err(parser.issues),
        Err(issue) => {
            parser.issues.push(issue);
            Err(parser.issues)
        }
    }
}

struct Parser {
    tokens: Vec<Token>,
    next: usize,
    depth: usize,
    /// Mistakes that do not stop the parser: in tokens and in macros.
    issues: Vec<Issue>,
}

type Parsed = Result<Expr, Issue>;

fn call(at: usize, function: &str, args: Vec<Expr>) -> Expr {
    Expr::new(at, Node::Call { function: function.to_owned(), target: None, args })
}

/// Refuses expressions that are nested so deeply that a walk through them could exhaust the stack.
fn bounded(expr: Expr) -> Parsed {
    if expr.height > MAX_HEIGHT {
        return Err(Issue { at: expr.at, message: format!("expression recursion limit exceeded: {MAX_HEIGHT}") });
    }
    Ok(expr)
}

impl Parser {
    fn peek(&self) -> &Token {
        &self.tokens[self.next.min(self.tokens.len() - 1)]
    }

    fn at_end(&self) -> bool {
        self.peek().kind == Kind::End
    }

    fn is_symbol(&self, symbol: &str) -> bool {
        matches!(self.peek().kind, Kind::Symbol(found) if found == symbol)
    }

    /// Takes a symbol if it comes next, and returns its position.
    fn take(&mut self, symbols: &[&'static str]) -> Option<(usize, &'static str)> {
        let Kind::Symbol(found) = self.peek().kind else { return None };
        let at = self.peek().at;
        symbols.contains(&found).then(|| {
            self.next += 1;
            (at, found)
        })
    }

    fn expect(&mut self, symbol: &'static str) -> Result<usize, Issue> {
        if let Some((at, _)) = self.take(&[symbol]) {
            return Ok(at);
        }
        let token = self.peek();
        let found = if self.at_end() { "<EOF>" } else { &token.text };
        Err(Issue { at: token.at, message: format!("Syntax error: missing '{symbol}' at '{found}'") })
    }

    fn unexpected(&self) -> Issue {
        let token = self.peek();
        let found = if self.at_end() { "<EOF>" } else { &token.text };
        Issue { at: token.at, message: format!("Syntax error: mismatched input '{found}' expecting {START}") }
    }

    fn expression(&mut self) -> Parsed {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            let message = format!("expression recursion limit exceeded: {MAX_DEPTH}");
            return Err(Issue { at: self.peek().at, message });
        }
        let condition = self.binary(0)?;
        let result = match self.take(&["?"]) {
            None => condition,
            Some((at, _)) => {
                let then = self.binary(0)?;
                self.expect(":")?;
                let otherwise = self.expression()?;
                call(at, "_?_:_", vec![condition, then, otherwise])
            }
        };
        self.depth -= 1;
        Ok(result)
    }

    /// Parses operators from a level of precedence on: `||`, `&&`, relations, sums, products.
    fn binary(&mut self, level: usize) -> Parsed {
        const LEVELS: [&[&str]; 5] =
            [&["||"], &["&&"], &["==", "!=", "<=", ">=", "<", ">"], &["+", "-"], &["*", "/", "%"]];
        let Some(symbols) = LEVELS.get(level) else { return self.unary() };
        let mut left = self.binary(level + 1)?;
        loop {
            let is_in = level == 2 && self.peek().kind == Kind::Ident(false) && self.peek().text == "in";
            let (at, function) = if is_in {
                let at = self.peek().at;
                self.next += 1;
                (at, "@in".to_owned())
            } else if let Some((at, symbol)) = self.take(symbols) {
                (at, format!("_{symbol}_"))
            } else {
                return Ok(left);
            };
            let right = self.binary(level + 1)?;
            left = bounded(call(at, &function, vec![left, right]))?;
        }
    }

    fn unary(&mut self) -> Parsed {
        let Some((at, symbol)) = self.take(&["!", "-"]) else { return self.member() };
        // Pairs of the same sign cancel out.
        let mut count = 1;
        while self.take(&[symbol]).is_some() {
            count += 1;
        }
        if symbol == "-" && count == 1 {
            let negative = match &self.peek().kind {
                Kind::Literal(Literal::Int(int)) => Some(Literal::Int(int.wrapping_neg())),
                Kind::Literal(Literal::Double(double)) => Some(Literal::Double(-double)),
                _ => None,
            };
            if let Some(literal) = negative {
                self.next += 1;
                return self.suffixes(Expr::new(at, Node::Literal(literal)));
            }
        }
        let operand = self.member()?;
        let function = if symbol == "!" { "!_" } else { "-_" };
        Ok(if count % 2 == 0 { operand } else { call(at, function, vec![operand]) })
    }

    fn member(&mut self) -> Parsed {
        let primary = self.primary()?;
        self.suffixes(primary)
    }

    fn suffixes(&mut self, mut expr: Expr) -> Parsed {
        loop {
            if let Some((at, _)) = self.take(&["."]) {
                let optional = self.take(&["?"]).is_some();
                let token = self.peek().clone();
                let Kind::Ident(quoted) = token.kind else {
                    let message = "Syntax error: no viable alternative at input '.'".to_owned();
                    let at = if self.at_end() { token.at } else { at };
                    return Err(Issue { at, message });
                };
                self.next += 1;
                let field = token.text.trim_matches('`').to_owned();
                expr = match self.take(&["("]).filter(|_| !quoted && !optional) {
                    Some((open, _)) => {
                        let args = self.arguments(")")?;
                        self.method(open, expr, field, args)
                    }
                    None => Expr::new(at, Node::Select { operand: Box::new(expr), field, optional }),
                };
            } else if let Some((at, _)) = self.take(&["["]) {
                let function = if self.take(&["?"]).is_some() { "_[?_]" } else { "_[_]" };
                let index = self.expression()?;
                self.expect("]")?;
                expr = call(at, function, vec![expr, index]);
            } else {
                return Ok(expr);
            }
            expr = bounded(expr)?;
        }
    }

    /// Parses expressions with commas between them up to a closing bracket.
    fn arguments(&mut self, close: &'static str) -> Result<Vec<Expr>, Issue> {
        let mut args = Vec::new();
        while self.take(&[close]).is_none() {
            args.push(self.expression()?);
            if self.take(&[","]).is_none() {
                self.expect(close)?;
                break;
            }
        }
        Ok(args)
    }

    fn primary(&mut self) -> Parsed {
        let token = self.peek().clone();
        let literal = |literal| Ok(Expr::new(token.at, Node::Literal(literal)));
        match &token.kind {
            Kind::Literal(value) => {
                self.next += 1;
                literal(value.clone())
            }
            Kind::Ident(false) if token.text == "in" => Err(self.unexpected()),
            Kind::Ident(false) => {
                self.next += 1;
                match token.text.as_str() {
                    "true" => literal(Literal::Bool(true)),
                    "false" => literal(Literal::Bool(false)),
                    "null" => literal(Literal::Null),
                    name => self.name(token.at, name),
                }
            }
            Kind::Symbol("(") => {
                self.next += 1;
                let inner = self.expression()?;
                self.expect(")")?;
                Ok(inner)
            }
            Kind::Symbol("[") => self.list(token.at),
            Kind::Symbol("{") => self.map(token.at),
            Kind::Symbol(".") => {
                self.next += 1;
                let name = self.peek().clone();
                if name.kind != Kind::Ident(false) {
                    return Err(self.unexpected());
                }
                self.next += 1;
                self.name(name.at, &name.text)
            }
            _ => Err(self.unexpected()),
        }
    }

    fn name(&mut self, at: usize, name: &str) -> Parsed {
        if is_reserved(name) {
            return Err(Issue { at, message: format!("reserved identifier: {name}") });
        }
        let Some((open, _)) = self.take(&["("]) else {
            return Ok(Expr::new(at, Node::Ident(name.to_owned())));
        };
        let args = self.arguments(")")?;
        if name == "has" && args.len() == 1 {
            return Ok(self.has(open, args));
        }
        Ok(call(open, name, args))
    }

    fn has(&mut self, at: usize, mut args: Vec<Expr>) -> Expr {
        let argument = args.pop();
        match argument {
            Some(Expr { node: Node::Select { operand, field, optional: false }, .. }) => {
                Expr::new(at, Node::Has { operand, field })
            }
            other => {
                let place = other.map_or(at, |expr| expr.at);
                self.issues.push(Issue { at: place, message: "invalid argument to has() macro".to_owned() });
                Expr::new(at, Node::Literal(Literal::Bool(false)))
            }
        }
    }

    fn list(&mut self, at: usize) -> Parsed {
        self.next += 1;
        let mut elements = Vec::new();
        while self.take(&["]"]).is_none() {
            let optional = self.take(&["?"]).is_some();
            elements.push((self.expression()?, optional));
            if self.take(&[","]).is_none() {
                self.expect("]")?;
                break;
            }
        }
        Ok(Expr::new(at, Node::List(elements)))
    }

    fn map(&mut self, at: usize) -> Parsed {
        self.next += 1;
        let mut entries = Vec::new();
        while self.take(&["}"]).is_none() {
            let optional = self.take(&["?"]).is_some();
            let key = self.expression()?;
            self.expect(":")?;
            entries.push((key, self.expression()?, optional));
            if self.take(&[","]).is_none() {
                self.expect("}")?;
                break;
            }
        }
        if self.is_symbol("{") {
            return Err(self.unexpected());
        }
        Ok(Expr::new(at, Node::Map(entries)))
    }

    /// Makes a macro of a method's call if it is one.
    fn method(&mut self, at: usize, target: Expr, name: String, args: Vec<Expr>) -> Expr {
        let Some((kind, vars)) = macro_of(&name, args.len()) else {
            return Expr::new(at, Node::Call { function: name, target: Some(Box::new(target)), args });
        };
        let mut args = args;
        let rest = args.split_off(vars);
        let mut names = Vec::new();
        for arg in args {
            match arg.node {
                Node::Ident(name) => names.push(name),
                _ => {
                    self.issues.push(Issue { at: arg.at, message: "argument must be a simple name".to_owned() });
                    names.push(String::new());
                }
            }
        }
        Expr::new(at, Node::Macro(Box::new(Comprehension { kind, range: target, vars: names, args: rest })))
    }
}

/// Returns the macro of a name and number of arguments, and how many of these are variables.
fn macro_of(name: &str, arguments: usize) -> Option<(MacroKind, usize)> {
    Some(match (name, arguments) {
        ("all", 2) => (MacroKind::All, 1),
        ("all", 3) => (MacroKind::All, 2),
        ("exists", 2) => (MacroKind::Exists, 1),
        ("exists", 3) => (MacroKind::Exists, 2),
        ("exists_one" | "existsOne", 2) => (MacroKind::ExistsOne, 1),
        ("exists_one" | "existsOne", 3) => (MacroKind::ExistsOne, 2),
        ("map", 2 | 3) => (MacroKind::Map, 1),
        ("filter", 2) => (MacroKind::Filter, 1),
        ("transformList", 3 | 4) => (MacroKind::TransformList, 2),
        ("transformMap", 3 | 4) => (MacroKind::TransformMap, 2),
        ("transformMapEntry", 3 | 4) => (MacroKind::TransformMapEntry, 2),
        ("optMap", 2) => (MacroKind::OptMap, 1),
        ("optFlatMap", 2) => (MacroKind::OptFlatMap, 1),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crd::cel::ast::render;

    #[test]
    fn places_expressions_at_their_characteristic_token() {
        let expr = parse("a.b + f(c)[0]").expect("expression");
        assert_eq!(expr.at, 4);
        let Node::Call { args, .. } = expr.node else { panic!("call") };
        assert_eq!((args[0].at, args[1].at), (1, 10));
    }

    #[test]
    fn names_syntax_errors_as_antlr_does() {
        let message = |text: &str| render(text, &parse(text).expect_err(text));
        assert!(
            message("a ==").starts_with("ERROR: <input>:1:5: Syntax error: mismatched input '<EOF>' expecting {'['")
        );
        assert!(message("(a").contains("1:3: Syntax error: missing ')' at '<EOF>'"));
        assert!(message("a.").contains("1:3: Syntax error: no viable alternative at input '.'"));
        assert!(message("has(a)").contains("1:5: invalid argument to has() macro"));
        assert!(message("a b").contains("1:3: Syntax error: extraneous input 'b' expecting <EOF>"));
    }

    #[test]
    fn bounds_nesting() {
        assert!(parse(&"(".repeat(5000)).is_err());
        assert!(parse(&format!("{}a{}", "(".repeat(90), ")".repeat(90))).is_ok());
    }
}
