//! What stands between the parentheses of the attribute.
//!
//! O1. An option appears at most once.
//! O2. `single_thread` excludes worker counts: it leaves nothing to count.
//! O3. `seeds` belongs to `sim`, and `sim` to tests.
//!
//! Not here: defaults (they differ between `main` and `test`).

use proc_macro2::{Span, TokenStream};
use syn::parse::{ParseStream, Parser};
use syn::{Error, Ident, Lit, Result, Token};

/// Names of all options, as error messages list them.
const KNOWN: &str = "`workers`, `io_workers`, `compute_workers`, `single_thread`, `sim`, `seeds`";

/// The options that were written.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Options {
    pub(crate) workers: Option<usize>,
    pub(crate) io_workers: Option<usize>,
    pub(crate) compute_workers: Option<usize>,
    pub(crate) single_thread: bool,
    pub(crate) sim: bool,
    pub(crate) seeds: Option<usize>,
}

impl Options {
    pub(crate) fn parse(tokens: TokenStream) -> Result<Self> {
        parse_list.parse2(tokens)
    }

    /// True if nothing was asked for.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

fn parse_list(input: ParseStream<'_>) -> Result<Options> {
    let mut options = Options::default();
    let mut seen: Vec<Ident> = Vec::new();
    while !input.is_empty() {
        let name = parse_name(input)?;
        if seen.contains(&name) {
            let text = format!("option `{name}` is given twice");
            return Err(Error::new(name.span(), text));
        }
        match name.to_string().as_str() {
            "workers" => options.workers = Some(parse_count(input, &name)?),
            "io_workers" => options.io_workers = Some(parse_count(input, &name)?),
            "compute_workers" => options.compute_workers = Some(parse_count(input, &name)?),
            "seeds" => options.seeds = Some(parse_count(input, &name)?),
            "single_thread" => {
                refuse_value(input, &name)?;
                options.single_thread = true;
            }
            "sim" => {
                refuse_value(input, &name)?;
                options.sim = true;
            }
            _ => {
                let text = format!("unknown option `{name}`; known are {KNOWN}");
                return Err(Error::new(name.span(), text));
            }
        }
        seen.push(name);
        if !input.is_empty() {
            input.parse::<Token![,]>()?;
        }
    }
    refuse_company(&options, &seen)?;
    Ok(options)
}

fn parse_name(input: ParseStream<'_>) -> Result<Ident> {
    input.parse().map_err(|error: Error| {
        let text = format!("expected the name of an option; known are {KNOWN}");
        Error::new(error.span(), text)
    })
}

fn parse_count(input: ParseStream<'_>, name: &Ident) -> Result<usize> {
    let expected = |span: Span| {
        let text = format!("`{name}` needs a number, as in `{name} = 4`");
        Error::new(span, text)
    };
    if !input.peek(Token![=]) {
        return Err(expected(name.span()));
    }
    input.parse::<Token![=]>()?;
    let value = input.parse::<Lit>().map_err(|e| expected(e.span()))?;
    let Lit::Int(number) = value else {
        return Err(expected(value.span()));
    };
    match number.base10_parse::<usize>() {
        Ok(0) => {
            let text = format!("`{name}` must be at least 1");
            Err(Error::new(number.span(), text))
        }
        Ok(count) => Ok(count),
        Err(_) => Err(expected(number.span())),
    }
}

fn refuse_value(input: ParseStream<'_>, name: &Ident) -> Result<()> {
    if input.peek(Token![=]) {
        return Err(input.error(format!("`{name}` takes no value")));
    }
    Ok(())
}

fn refuse_company(options: &Options, seen: &[Ident]) -> Result<()> {
    let named = |what: &str| seen.iter().find(|name| *name == what);
    if let (false, Some(seeds)) = (options.sim, named("seeds")) {
        return Err(Error::new(seeds.span(), "`seeds` needs `sim`"));
    }
    if !options.single_thread {
        return Ok(());
    }
    let counts = ["workers", "io_workers", "compute_workers"];
    match counts.into_iter().find_map(named) {
        Some(other) => {
            let text = format!("`single_thread` leaves no room for `{other}`");
            Err(Error::new(other.span(), text))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
