//! JSON text to document nodes, through the crate's own scanner. Knows no places but line 1.

use contract::document::{Key, Kind, Node, Place};
use contract::json::{Number, Scanner, Sink, Text};
use contract::limits::Limits;
use contract::reason::Reason;

#[derive(Default)]
struct Nodes {
    open: Vec<(Kind, Vec<String>)>,
    root: Option<Node>,
}

/// The value in a text.
pub fn parse(text: &str) -> Result<Node, Reason> {
    let mut nodes = Nodes::default();
    let limits = Limits { number_chars: 10_000, exponent: u32::MAX, ..Limits::default() };
    let mut scanner = Scanner::new(&limits);
    scanner.feed(text.as_bytes(), &mut nodes)?;
    scanner.finish(&mut nodes)?;
    nodes.root.ok_or(Reason::Truncated)
}

impl Nodes {
    fn put(&mut self, kind: Kind) -> Result<(), Reason> {
        let node = Node { kind, place: Place::default() };
        match self.open.last_mut() {
            None => self.root = Some(node),
            Some((Kind::Array(elements), _)) => elements.push(node),
            Some((Kind::Object(members), keys)) => {
                let text = keys.pop().unwrap();
                members.push((Key { text, place: Place::default() }, node));
            }
            Some(_) => unreachable!(),
        }
        Ok(())
    }

    fn text(text: Text<'_>) -> String {
        String::from_utf8(text.bytes.to_vec()).unwrap()
    }

    fn end(&mut self) -> Result<(), Reason> {
        let (kind, _) = self.open.pop().unwrap();
        self.put(kind)
    }
}

impl Sink for Nodes {
    fn null(&mut self) -> Result<(), Reason> {
        self.put(Kind::Null)
    }
    fn boolean(&mut self, value: bool) -> Result<(), Reason> {
        self.put(Kind::Bool(value))
    }
    fn number(&mut self, number: Number<'_>) -> Result<(), Reason> {
        self.put(Kind::Number(String::from_utf8(number.text.to_vec()).unwrap()))
    }
    fn string(&mut self, text: Text<'_>) -> Result<(), Reason> {
        self.put(Kind::String(Self::text(text)))
    }
    fn begin_array(&mut self) -> Result<(), Reason> {
        self.open.push((Kind::Array(Vec::new()), Vec::new()));
        Ok(())
    }
    fn end_array(&mut self) -> Result<(), Reason> {
        self.end()
    }
    fn begin_object(&mut self) -> Result<(), Reason> {
        self.open.push((Kind::Object(Vec::new()), Vec::new()));
        Ok(())
    }
    fn key(&mut self, text: Text<'_>) -> Result<(), Reason> {
        self.open.last_mut().unwrap().1.push(Self::text(text));
        Ok(())
    }
    fn end_object(&mut self) -> Result<(), Reason> {
        self.end()
    }
}

/// The text of a node, without spaces.
pub fn print(node: &Node) -> String {
    match &node.kind {
        Kind::Null => "null".to_owned(),
        Kind::Bool(value) => value.to_string(),
        Kind::Number(text) => text.clone(),
        Kind::String(text) => serde_json::to_string(text).unwrap(),
        Kind::Array(elements) => format!("[{}]", elements.iter().map(print).collect::<Vec<_>>().join(",")),
        Kind::Object(members) => {
            let member =
                |(key, value): &(Key, Node)| format!("{}:{}", serde_json::to_string(&key.text).unwrap(), print(value));
            format!("{{{}}}", members.iter().map(member).collect::<Vec<_>>().join(","))
        }
    }
}
