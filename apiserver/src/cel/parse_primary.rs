//! Parses constants, names, lists, maps and messages, and recognises macros.

use super::ast::{Comprehension, Expr, Issue, Literal, MacroKind, Node};
use super::parse::{Parsed, Parser, START, call};
use super::token::{Kind, Token};
use super::words::is_reserved;

impl Parser {
    /// Reports whether an expression can start with a token.
    fn starts(token: &Token) -> bool {
        match token.kind {
            Kind::Literal(_) => true,
            Kind::Ident(quoted) => !quoted && token.text != "in",
            Kind::Symbol(symbol) => matches!(symbol, "[" | "{" | "(" | "." | "-" | "!"),
            Kind::End => false,
        }
    }

    /// Skips one superfluous token if an expression follows it, as ANTLR recovers; otherwise returns
    /// the mistake.
    fn recover(&mut self) -> Parsed {
        let token = self.peek().clone();
        if self.at_end() || !self.tokens.get(self.next + 1).is_some_and(Self::starts) {
            return Err(self.unexpected());
        }

        let message = format!(
            "Syntax error: extraneous input '{}' expecting {START}",
            token.text
        );
        self.issues.push(Issue {
            at: token.at,
            message,
        });

        self.next += 1;
        self.primary()
    }

    pub(super) fn primary(&mut self) -> Parsed {
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
            _ => self.recover(),
        }
    }

    fn name(&mut self, at: usize, name: &str) -> Parsed {
        if is_reserved(name) {
            return Err(Issue {
                at,
                message: format!("reserved identifier: {name}"),
            });
        }

        if self.is_symbol("{") {
            return self.message(name);
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

    /// Parses the fields of a message literal after its name.
    fn message(&mut self, name: &str) -> Parsed {
        let at = self.expect("{")?;
        let mut fields = Vec::new();

        while self.take(&["}"]).is_none() {
            let _ = self.take(&["?"]);
            if !matches!(self.peek().kind, Kind::Ident(_)) {
                return Err(self.unexpected());
            }
            self.next += 1;

            self.expect(":")?;
            fields.push(self.expression()?);

            if self.take(&[","]).is_none() {
                self.expect("}")?;
                break;
            }
        }

        Ok(Expr::new(
            at,
            Node::Message {
                name: name.to_owned(),
                fields,
            },
        ))
    }

    fn has(&mut self, at: usize, mut args: Vec<Expr>) -> Expr {
        let argument = args.pop();
        match argument {
            Some(Expr {
                node:
                    Node::Select {
                        operand,
                        field,
                        optional: false,
                    },
                ..
            }) => Expr::new(at, Node::Has { operand, field }),
            other => {
                let place = other.map_or(at, |expr| expr.at);

                self.issues.push(Issue {
                    at: place,
                    message: "invalid argument to has() macro".to_owned(),
                });

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

        Ok(Expr::new(at, Node::Map(entries)))
    }

    /// Recognizes a macro in a method call, or returns the plain call.
    pub(super) fn method(
        &mut self,
        at: usize,
        target: Expr,
        name: String,
        args: Vec<Expr>,
    ) -> Expr {
        let Some((kind, vars)) = macro_of(&name, args.len()) else {
            return Expr::new(
                at,
                Node::Call {
                    function: name,
                    target: Some(Box::new(target)),
                    args,
                },
            );
        };

        let mut args = args;
        let rest = args.split_off(vars);

        let mut names = Vec::new();
        for arg in args {
            match arg.node {
                Node::Ident(name) => names.push(name),
                _ => {
                    self.issues.push(Issue {
                        at: arg.at,
                        message: "argument must be a simple name".to_owned(),
                    });
                    names.push(String::new());
                }
            }
        }

        Expr::new(
            at,
            Node::Macro(Box::new(Comprehension {
                kind,
                range: target,
                vars: names,
                args: rest,
            })),
        )
    }
}

/// The macro with a name and number of arguments, and how many of these are variables.
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
        ("sortBy", 2) => (MacroKind::SortBy, 1),
        _ => return None,
    })
}
