//! From the written function to the one that the compiler sees.
//!
//! Not here: the meaning of options (`crate::options` reads them, `filch::Builder` obeys them).

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::{Attribute, Error, ItemFn, Result};

use crate::options::Options;

/// Which attribute is being expanded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    Main,
    Test,
}

impl Kind {
    fn attribute(self) -> &'static str {
        match self {
            Kind::Main => "#[filch::main]",
            Kind::Test => "#[filch::test]",
        }
    }
}

/// Workers of each role in a test that does not say. Guessed: the fewest that can race.
const TEST_WORKERS: usize = 2;

/// Seeds of a simulated test that does not say. Guessed: a tenth of a second's worth.
const SIM_SEEDS: usize = 100;

pub(crate) fn expand(kind: Kind, options: TokenStream, item: TokenStream) -> TokenStream {
    let function = match syn::parse2::<ItemFn>(item.clone()) {
        Ok(function) => function,
        Err(error) => return not_a_function(kind, item, &error),
    };
    let checked = Options::parse(options.clone()).and_then(|parsed| {
        refuse_sim_of_main(kind, &parsed, &options)?;
        check(kind, &parsed, &function)?;
        Ok(parsed)
    });
    match checked {
        Ok(options) => outer(kind, &options, function),
        Err(error) => refuse(function, &error),
    }
}

/// What cannot be read as a function with a body goes back to the compiler unchanged.
fn not_a_function(kind: Kind, item: TokenStream, error: &Error) -> TokenStream {
    let text = format!("{} goes on an `async fn` with a body", kind.attribute());
    let error = Error::new(error.span(), text).into_compile_error();
    quote! { #error #item }
}

/// A program has no seeds to try.
fn refuse_sim_of_main(kind: Kind, options: &Options, written: &TokenStream) -> Result<()> {
    if kind == Kind::Main && options.sim {
        return Err(Error::new_spanned(written, "`sim` is for #[filch::test]"));
    }
    Ok(())
}

fn check(kind: Kind, options: &Options, function: &ItemFn) -> Result<()> {
    let refuse = |at: &dyn ToTokens, what: &str| {
        let text = format!("{} {what}", kind.attribute());
        Err(Error::new_spanned(at.to_token_stream(), text))
    };
    let sig = &function.sig;
    if sig.asyncness.is_none() && !options.sim {
        return refuse(&sig.fn_token, "needs an `async fn`");
    }
    if let Some(token) = &sig.unsafety {
        return refuse(token, "needs a safe function");
    }
    if let Some(abi) = &sig.abi {
        return refuse(abi, "needs a function without `extern`");
    }
    if !sig.generics.params.is_empty() {
        return refuse(&sig.generics, "needs a function without generics");
    }
    if let Some(clause) = &sig.generics.where_clause {
        return refuse(clause, "needs a function without generics");
    }
    if !sig.inputs.is_empty() {
        return refuse(&sig.inputs, "needs a function without arguments");
    }
    match function.attrs.iter().find(|attr| is_test(attr)) {
        Some(second) => refuse(second, "does not combine with a test attribute"),
        None => Ok(()),
    }
}

/// `#[test]`, under any path that ends so: the other attribute would run the function twice.
fn is_test(attr: &Attribute) -> bool {
    let last = attr.path().segments.last();
    last.is_some_and(|segment| segment.ident == "test")
}

/// M3: the error, and a function of that name and visibility.
fn refuse(mut function: ItemFn, error: &Error) -> TokenStream {
    let error = error.to_compile_error();
    let vis = function.vis.clone();
    let name = &function.sig.ident;
    let outer = quote! { #vis fn #name() };
    function.attrs.clear();
    function.vis = syn::Visibility::Inherited;
    quote! {
        #error
        #outer {
            #[allow(dead_code)]
            #function
        }
    }
}

fn outer(kind: Kind, options: &Options, mut function: ItemFn) -> TokenStream {
    if options.sim {
        return simulated(options, function);
    }
    let attrs = std::mem::take(&mut function.attrs);
    let vis = std::mem::replace(&mut function.vis, syn::Visibility::Inherited);
    let name = &function.sig.ident;
    let output = &function.sig.output;
    let test = match kind {
        Kind::Main => None,
        Kind::Test => Some(quote! { #[::core::prelude::v1::test] }),
    };
    let run = match builder(kind, options) {
        None => quote! { ::filch::block_on(#name()) },
        Some(builder) => {
            let failed = format!("{}: the runtime did not start: {{}}", kind.attribute());
            quote! {
                match #builder.build() {
                    ::core::result::Result::Ok(runtime) => runtime.block_on(#name()),
                    ::core::result::Result::Err(error) => ::core::panic!(#failed, error),
                }
            }
        }
    };
    quote! {
        #test
        #(#attrs)*
        #vis fn #name() #output {
            #function
            #run
        }
    }
}

/// A test that runs once for each seed. The simulation judges what the function returns, so the
/// outer one returns nothing.
fn simulated(options: &Options, mut function: ItemFn) -> TokenStream {
    let attrs = std::mem::take(&mut function.attrs);
    let vis = std::mem::replace(&mut function.vis, syn::Visibility::Inherited);
    let name = &function.sig.ident;
    let program = match function.sig.asyncness {
        Some(_) => quote! { || ::filch::block_on(#name()) },
        None => quote! { #name },
    };
    let seeds = options.seeds.unwrap_or(SIM_SEEDS) as u64;
    let mut sim = quote! { ::filch::testkit::Sim::new() };
    if options.single_thread {
        sim.extend(quote! { .single_thread() });
    }
    sim.extend(counts(options, options.workers));
    quote! {
        #[::core::prelude::v1::test]
        #(#attrs)*
        #vis fn #name() {
            #function
            #sim.check(0..#seeds, #program)
        }
    }
}

/// The builder calls that the options ask for; `None` stands for the default runtime.
fn builder(kind: Kind, options: &Options) -> Option<TokenStream> {
    if kind == Kind::Main && options.is_empty() {
        return None;
    }
    let mut calls = quote! { ::filch::Runtime::builder() };
    if options.single_thread {
        calls.extend(quote! { .single_thread(true) });
        return Some(calls);
    }
    let workers = match kind {
        Kind::Main => options.workers,
        Kind::Test => options.workers.or(Some(TEST_WORKERS)),
    };
    calls.extend(counts(options, workers));
    Some(calls)
}

/// The calls that set worker counts.
fn counts(options: &Options, workers: Option<usize>) -> TokenStream {
    // `workers` sets both roles, so it comes before the options that override it.
    let mut calls = TokenStream::new();
    calls.extend(workers.map(|n| quote! { .workers(#n) }));
    calls.extend(options.io_workers.map(|n| quote! { .io_workers(#n) }));
    calls.extend(options.compute_workers.map(|n| quote! { .compute_workers(#n) }));
    calls
}

#[cfg(test)]
mod tests;
