//! Pictures of a graph: DOT for people, JSON for tools.

use std::fmt::{self, Write};

use super::build::Graph;
use super::plan::trait_bits;

/// A string as DOT and JSON quote it.
pub(super) struct Quoted<'a>(pub(super) &'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        for c in self.0.chars() {
            match c {
                '"' => f.write_str("\\\"")?,
                '\\' => f.write_str("\\\\")?,
                '\n' => f.write_str("\\n")?,
                c if c.is_control() => write!(f, "\\u{:04x}", u32::from(c))?,
                c => f.write_char(c)?,
            }
        }
        f.write_char('"')
    }
}

impl Graph<'_> {
    /// The graph in the language of Graphviz. Conditions are diamonds, weak edges dashed and numbered.
    ///
    /// ```
    /// let mut g = filch::Graph::new();
    /// let (a, b) = (g.node("a", || ()), g.node("b", || ()));
    /// g.precede(a, b);
    /// assert!(g.dump_dot().contains("n0 -> n1;"));
    /// ```
    pub fn dump_dot(&self) -> String {
        self.dot_with(|index| format!("label={}", Quoted(&self.parts.name(index))))
    }

    /// As [`Graph::dump_dot`], with nodes as `attributes` has them.
    pub(super) fn dot_with(&self, attributes: impl Fn(u32) -> String) -> String {
        let mut out = String::new();
        self.write_dot(&mut out, attributes).expect("a string takes all");
        out
    }

    fn write_dot(&self, out: &mut String, attributes: impl Fn(u32) -> String) -> fmt::Result {
        out.push_str("digraph {\n");
        for id in self.nodes() {
            write!(out, "  n{} [{}", id.index, attributes(id.index))?;
            if self.is_condition(id.index) {
                out.push_str(", shape=diamond");
            }
            out.push_str("];\n");
        }
        let mut number = 0;
        let mut last = u32::MAX;
        for &(from, to) in &self.edges_by_origin() {
            number = if from == last { number + 1 } else { 0 };
            last = from;
            write!(out, "  n{from} -> n{to}")?;
            if self.is_condition(from) {
                write!(out, " [style=dashed, label={number}]")?;
            }
            out.push_str(";\n");
        }
        out.push_str("}\n");
        Ok(())
    }

    /// The graph as a JSON object with `nodes` and `edges`.
    ///
    /// ```
    /// let mut g = filch::Graph::new();
    /// let (a, b) = (g.node("a", || ()), g.node("b", || ()));
    /// g.precede(a, b);
    /// let json = r#"{"nodes":[{"id":0,"name":"a","kind":"node"},{"id":1,"name":"b","kind":"node"}],"edges":[{"from":0,"to":1,"weak":false}]}"#;
    /// assert_eq!(g.dump_json(), json);
    /// ```
    pub fn dump_json(&self) -> String {
        let mut out = String::new();
        self.write_json(&mut out).expect("a string takes all");
        out
    }

    fn write_json(&self, out: &mut String) -> fmt::Result {
        out.push_str("{\"nodes\":[");
        for (place, id) in self.nodes().enumerate() {
            let comma = if place > 0 { "," } else { "" };
            let kind = if self.is_condition(id.index) { "condition" } else { "node" };
            let name = self.parts.name(id.index);
            write!(
                out,
                "{comma}{{\"id\":{},\"name\":{},\"kind\":\"{kind}\"}}",
                id.index,
                Quoted(&name)
            )?;
        }
        out.push_str("],\"edges\":[");
        for (place, &(from, to)) in self.edges_by_origin().iter().enumerate() {
            let comma = if place > 0 { "," } else { "" };
            let weak = self.is_condition(from);
            write!(out, "{comma}{{\"from\":{from},\"to\":{to},\"weak\":{weak}}}")?;
        }
        out.push_str("]}");
        Ok(())
    }

    fn is_condition(&self, index: u32) -> bool {
        self.parts.nodes[index as usize].traits & trait_bits::CONDITION != 0
    }

    fn edges_by_origin(&self) -> Vec<(u32, u32)> {
        let mut edges = self.parts.edges.clone();
        edges.sort_by_key(|edge| edge.0);
        edges
    }
}

/// The graph as [`Graph::dump_dot`] has it.
impl fmt::Display for Graph<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.dump_dot())
    }
}
