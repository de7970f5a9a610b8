//! Parses expressions: operators and selections.

use super::ast::{Expr, Issue, Literal, Node};
use super::token::{Kind, Token, tokenize};

/// The deepest nesting of expressions.
const MAX_DEPTH: usize = 96;
/// The greatest height of the syntax tree. This limit and the next are the defaults of
/// <https://github.com/google/cel-go/blob/v0.26.0/parser/parser.go>.
const MAX_HEIGHT: usize = 250;
/// The longest expression, in characters.
const MAX_LENGTH: usize = 100_000;
pub(super) const START: &str = "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, \
IDENTIFIER}";

pub fn parse(text: &str) -> Result<Expr, Vec<Issue>> {
    let length = text.chars().count();
    if length > MAX_LENGTH {
        let message =
            format!("expression code point size exceeds limit: size: {length}, limit {MAX_LENGTH}");
        return Err(vec![Issue { at: 0, message }]);
    }

    let (tokens, issues) = tokenize(text);
    let mut parser = Parser {
        tokens,
        next: 0,
        depth: 0,
        issues,
    };

    match parser.expression() {
        Ok(_) if !parser.at_end() => {
            let token = parser.peek().clone();

            let message = format!(
                "Syntax error: extraneous input '{}' expecting <EOF>",
                token.text
            );

            parser.issues.push(Issue {
                at: token.at,
                message,
            });
            Err(parser.issues)
        }
        Ok(mut expr) if parser.issues.is_empty() => {
            expr.number(0);
            Ok(expr)
        }
        Ok(_) => Err(parser.issues),
        Err(issue) => {
            parser.issues.push(issue);
            Err(parser.issues)
        }
    }
}

pub(super) struct Parser {
    pub(super) tokens: Vec<Token>,
    /// The index of the next token.
    pub(super) next: usize,
    depth: usize,
    /// Mistakes in tokens and macros, which do not stop the parser.
    pub(super) issues: Vec<Issue>,
}

pub(super) type Parsed = Result<Expr, Issue>;

pub(super) fn call(at: usize, function: &str, args: Vec<Expr>) -> Expr {
    Expr::new(
        at,
        Node::Call {
            function: function.to_owned(),
            target: None,
            args,
        },
    )
}

/// Joins terms by the operators between them into the lowest possible tree, as cel-go's
/// parser does.
fn balanced(terms: &mut impl Iterator<Item = Expr>, places: &[(usize, String)]) -> Parsed {
    let middle = places.len() / 2;
    let Some((at, function)) = places.get(middle) else {
        return terms.next().ok_or(Issue {
            at: 0,
            message: "Syntax error: missing operand".to_owned(),
        });
    };

    let left = balanced(terms, &places[..middle])?;
    let right = balanced(terms, &places[middle + 1..])?;

    Ok(call(*at, function, vec![left, right]))
}

/// Refuses an expression so deeply nested that walking it could exhaust the stack.
fn bounded(expr: Expr) -> Parsed {
    if expr.height > MAX_HEIGHT {
        return Err(Issue {
            at: expr.at,
            message: format!("expression recursion limit exceeded: {MAX_HEIGHT}"),
        });
    }
    Ok(expr)
}

impl Parser {
    pub(super) fn peek(&self) -> &Token {
        &self.tokens[self.next.min(self.tokens.len() - 1)]
    }

    pub(super) fn at_end(&self) -> bool {
        self.peek().kind == Kind::End
    }

    pub(super) fn is_symbol(&self, symbol: &str) -> bool {
        matches!(self.peek().kind, Kind::Symbol(found) if found == symbol)
    }

    /// Consumes the next token if it is one of the symbols, and returns its position.
    pub(super) fn take(&mut self, symbols: &[&'static str]) -> Option<(usize, &'static str)> {
        let Kind::Symbol(found) = self.peek().kind else {
            return None;
        };

        let at = self.peek().at;
        symbols.contains(&found).then(|| {
            self.next += 1;
            (at, found)
        })
    }

    pub(super) fn expect(&mut self, symbol: &'static str) -> Result<usize, Issue> {
        if let Some((at, _)) = self.take(&[symbol]) {
            return Ok(at);
        }

        let token = self.peek();
        let found = if self.at_end() { "<EOF>" } else { &token.text };

        Err(Issue {
            at: token.at,
            message: format!("Syntax error: missing '{symbol}' at '{found}'"),
        })
    }

    pub(super) fn unexpected(&self) -> Issue {
        let token = self.peek();
        let found = if self.at_end() { "<EOF>" } else { &token.text };
        Issue {
            at: token.at,
            message: format!("Syntax error: mismatched input '{found}' expecting {START}"),
        }
    }

    pub(super) fn expression(&mut self) -> Parsed {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            let message = format!("expression recursion limit exceeded: {MAX_DEPTH}");
            return Err(Issue {
                at: self.peek().at,
                message,
            });
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

    /// Parses operators of a precedence level and tighter ones: `||`, `&&`, relations, sums, products.
    fn binary(&mut self, level: usize) -> Parsed {
        const LEVELS: [&[&str]; 5] = [
            &["||"],
            &["&&"],
            &["==", "!=", "<=", ">=", "<", ">"],
            &["+", "-"],
            &["*", "/", "%"],
        ];

        let Some(symbols) = LEVELS.get(level) else {
            return self.unary();
        };

        let mut left = self.binary(level + 1)?;
        if level < 2 {
            return self.logical(symbols, level, left);
        }

        loop {
            let is_in =
                level == 2 && self.peek().kind == Kind::Ident(false) && self.peek().text == "in";

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

    /// Parses the rest of a chain of `||` or `&&` into a balanced tree.
    fn logical(&mut self, symbols: &[&'static str], level: usize, first: Expr) -> Parsed {
        let mut terms = vec![first];
        let mut places = Vec::new();
        while let Some((at, symbol)) = self.take(symbols) {
            places.push((at, format!("_{symbol}_")));
            terms.push(self.binary(level + 1)?);
        }

        let mut terms = terms.into_iter();
        bounded(balanced(&mut terms, &places)?)
    }

    fn unary(&mut self) -> Parsed {
        let Some((at, symbol)) = self.take(&["!", "-"]) else {
            return self.member();
        };

        // Pairs of the same sign cancel out, as in cel-go's `VisitLogicalNot` and `VisitNegate`.
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

        Ok(if count % 2 == 0 {
            operand
        } else {
            call(at, function, vec![operand])
        })
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
                    None => Expr::new(
                        at,
                        Node::Select {
                            operand: Box::new(expr),
                            field,
                            optional,
                        },
                    ),
                };
            } else if let Some((at, _)) = self.take(&["["]) {
                let is_optional = self.take(&["?"]).is_some();
                let function = if is_optional { "_[?_]" } else { "_[_]" };

                if !is_optional && self.at_end() {
                    let Issue { at, message } = self.unexpected();
                    return Err(Issue {
                        at,
                        message: message.replace("'!', ", "'!', '?', "),
                    });
                }

                let index = self.expression()?;
                self.expect("]")?;
                expr = call(at, function, vec![expr, index]);
            } else {
                return Ok(expr);
            }

            expr = bounded(expr)?;
        }
    }

    /// Parses comma-separated expressions up to a closing bracket.
    pub(super) fn arguments(&mut self, close: &'static str) -> Result<Vec<Expr>, Issue> {
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cel::ast::render;

    #[test]
    fn places_expressions_at_their_characteristic_token() {
        let expr = parse("a.b + f(c)[0]").expect("expression");
        assert_eq!(expr.at, 4);
        let Node::Call { args, .. } = expr.node else {
            panic!("call")
        };
        assert_eq!((args[0].at, args[1].at), (1, 10));
    }

    #[test]
    fn names_syntax_errors_as_antlr_does() {
        let message = |text: &str| render(text, &parse(text).expect_err(text));
        assert!(message("a ==").starts_with(
            "ERROR: <input>:1:5: Syntax error: mismatched input '<EOF>' expecting {'['"
        ));

        assert!(message("(a").contains("1:3: Syntax error: missing ')' at '<EOF>'"));
        assert!(message("a.").contains("1:3: Syntax error: no viable alternative at input '.'"));
        assert!(message("has(a)").contains("1:5: invalid argument to has() macro"));
        assert!(message("a b").contains("1:3: Syntax error: extraneous input 'b' expecting <EOF>"));

        assert!(
            message("x -> y").contains("1:4: Syntax error: extraneous input '>' expecting {'['")
        );

        assert!(
            message("a[")
                .contains("1:3: Syntax error: mismatched input '<EOF>' expecting {'[', '{', '(', '.', '-', '!', '?', ")
        );
    }

    #[test]
    fn balances_long_chains() {
        let expr = parse(&vec!["a"; 2000].join(" && ")).expect("chain");
        assert!(expr.height <= 12, "{}", expr.height);
        let expr = parse("a || b || c").expect("chain");
        assert_eq!((expr.at, expr.node.children()[0].at), (7, 2));
    }

    #[test]
    fn numbers_expressions() {
        let expr = parse("a + [b]").expect("expression");

        let children = expr.node.children();
        assert_eq!(
            (
                expr.id,
                children[0].id,
                children[1].id,
                children[1].node.children()[0].id
            ),
            (0, 1, 2, 3)
        );
    }

    #[test]
    fn bounds_nesting() {
        assert!(parse(&"(".repeat(5000)).is_err());
        assert!(parse(&" ".repeat(MAX_LENGTH + 1)).is_err());
        assert!(parse(&format!("{}a{}", "(".repeat(90), ")".repeat(90))).is_ok());
    }
}
