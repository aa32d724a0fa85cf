//! `select!`, `race!`, `join!` and `try_join!`: several futures in one task.
//!
//! S1. Every future is pinned on the stack of the task, as an `Option` that is emptied when it is ready:
//!     no allocation, no unsafe code, and nothing is polled twice after its end.
//! S2. All futures are dropped before a handler of `select!` runs, so it may use what they borrowed.
//! S3. All conditions are looked at before a future is made, which may borrow what they read. The future
//!     of a branch that is disabled is not made.
//!     A temporary that an expression borrows lives as long as its future, as in a `let`.
//! S4. Who is polled first changes from poll to poll, unless `biased;` says otherwise: by chance in
//!     `select!` and `race!`, in turn in `join!`. A branch that uses up the budget does not starve the others.
//! S5. Each macro counts once against the budget when it is ready, unless a future inside of it has counted. So
//!     a loop over futures of other libraries, or over nothing, lets a `timeout` around it fire.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote};
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::visit_mut::VisitMut;
use syn::{Error, Expr, Pat, PatIdent, Result, Token, token};

/// `pattern = future, if condition => handler`
struct Branch {
    pattern: Pat,
    future: Expr,
    condition: Option<Expr>,
    handler: Expr,
}

struct Select {
    order: Order,
    branches: Vec<Branch>,
    otherwise: Option<Expr>,
}

mod keyword {
    syn::custom_keyword!(biased);
}

impl Parse for Branch {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let pattern = Pat::parse_multi_with_leading_vert(input)?;
        input.parse::<Token![=]>()?;
        let future = input.parse()?;
        let condition = if input.peek(Token![,]) && input.peek2(Token![if]) {
            input.parse::<Token![,]>()?;
            input.parse::<Token![if]>()?;
            Some(input.parse()?)
        } else {
            None
        };
        let handler = handler(input)?;
        Ok(Self { pattern, future, condition, handler })
    }
}

/// `=> expression`, with a comma behind it unless it is a block or the last.
fn handler(input: ParseStream<'_>) -> Result<Expr> {
    input.parse::<Token![=>]>()?;
    let is_block = input.peek(token::Brace);
    let handler = Expr::parse_with_earlier_boundary_rule(input)?;
    if input.peek(Token![,]) {
        input.parse::<Token![,]>()?;
    } else if !input.is_empty() && !is_block {
        return Err(input.error("expected `,`"));
    }
    Ok(handler)
}

/// In which order the futures are polled (S4).
#[derive(Clone, Copy, PartialEq)]
enum Order {
    Fair,
    /// As they are written.
    Biased,
}

impl Parse for Order {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        if !(input.peek(keyword::biased) && input.peek2(Token![;])) {
            return Ok(Self::Fair);
        }
        input.parse::<keyword::biased>()?;
        input.parse::<Token![;]>()?;
        Ok(Self::Biased)
    }
}

impl Parse for Select {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let order = input.parse()?;
        let (mut branches, mut otherwise) = (Vec::new(), None);
        while !input.is_empty() {
            if input.peek(Token![else]) {
                input.parse::<Token![else]>()?;
                otherwise = Some(handler(input)?);
                if !input.is_empty() {
                    return Err(input.error("`else` is the last branch"));
                }
            } else {
                branches.push(input.parse()?);
            }
        }
        if branches.is_empty() && otherwise.is_none() {
            return Err(input.error("`select!` needs a branch: `pattern = future => expression`"));
        }
        Ok(Self { order, branches, otherwise })
    }
}

pub(crate) fn select(input: TokenStream) -> TokenStream {
    syn::parse2(input).map_or_else(Error::into_compile_error, |select| expand_select(&select))
}

pub(crate) fn race(input: TokenStream) -> TokenStream {
    let List { order, futures } = match syn::parse2(input) {
        Ok(List { futures, .. }) if futures.is_empty() => {
            return Error::new(Span::call_site(), "`race!` needs a future").into_compile_error();
        }
        Ok(list) => list,
        Err(error) => return error.into_compile_error(),
    };
    let value = local("winner");
    let branch = |future: Expr| Branch {
        pattern: syn::parse_quote!(#value),
        future,
        condition: None,
        handler: syn::parse_quote!(#value),
    };
    let branches = futures.into_iter().map(branch).collect();
    expand_select(&Select { order, branches, otherwise: None })
}

/// `biased; future, future`
struct List {
    order: Order,
    futures: Vec<Expr>,
}

impl Parse for List {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let order = input.parse()?;
        let futures = Punctuated::<Expr, Token![,]>::parse_terminated(input)?;
        Ok(Self { order, futures: futures.into_iter().collect() })
    }
}

/// A name that the caller's code cannot meet.
fn local(name: &str) -> Ident {
    Ident::new(name, Span::mixed_site())
}

fn numbered(name: &str, count: usize) -> Vec<Ident> {
    (0..count).map(|index| local(&format!("{name}{index}"))).collect()
}

/// Removes `ref` and `mut` from bindings and `&` from patterns, for a look at a value by reference: there
/// the compiler looks through references by itself, and does not take these beside it.
struct Plain;

impl VisitMut for Plain {
    fn visit_pat_mut(&mut self, pattern: &mut Pat) {
        while let Pat::Reference(reference) = pattern {
            *pattern = (*reference.pat).clone();
        }
        syn::visit_mut::visit_pat_mut(self, pattern);
    }

    fn visit_pat_ident_mut(&mut self, pattern: &mut PatIdent) {
        pattern.by_ref = None;
        pattern.mutability = None;
        syn::visit_mut::visit_pat_ident_mut(self, pattern);
    }
}

fn plain(pattern: &Pat) -> Pat {
    let mut pattern = pattern.clone();
    Plain.visit_pat_mut(&mut pattern);
    pattern
}

/// Makes a future, unless its branch is disabled, and pins it (S1, S3).
fn pin(name: &Ident, future: &Expr, enabled: Option<&Ident>) -> TokenStream {
    let made = local("made");
    let some = quote! { ::std::option::Option::Some(#future) };
    let some = match enabled {
        Some(enabled) => quote! { if #enabled { #some } else { ::std::option::Option::None } },
        None => some,
    };
    // A statement of its own, so that what the expression borrows lives on.
    quote! {
        let #made = #some;
        let mut #name = ::std::pin::pin!(#made.map(::std::future::IntoFuture::into_future));
    }
}

fn expand_select(select: &Select) -> TokenStream {
    let count = select.branches.len();
    if let (0, Some(otherwise)) = (count, &select.otherwise) {
        return quote! {
            match ::filch::sync::__private::proceed().await { () => #otherwise }
        };
    }
    let (futures, value, selected) = (numbered("future", count), local("value"), local("selected"));
    let outcome = format_ident!("__FilchSelected");
    let variants: Vec<Ident> = (0..count).map(|index| format_ident!("B{index}")).collect();
    let start = match select.order {
        Order::Biased => quote! { 0 },
        Order::Fair => quote! { ::filch::sync::__private::start(#count) },
    };
    let enabled = numbered("enabled", count);
    let conditions = select.branches.iter().zip(&enabled).filter_map(|(branch, name)| {
        branch.condition.as_ref().map(|condition| quote! { let #name: bool = #condition; })
    });
    let pins =
        select.branches.iter().zip(&futures).zip(&enabled).map(|((branch, name), enabled)| {
            pin(name, &branch.future, branch.condition.as_ref().map(|_| enabled))
        });
    let arms = select.branches.iter().enumerate().map(|(index, branch)| {
        let (variant, pattern) = (&variants[index], plain(&branch.pattern));
        poll_arm(
            index,
            &futures[index],
            &value,
            &quote! {
                #[allow(unused_variables, unreachable_patterns, clippy::match_single_binding)]
                match &#value {
                    #pattern => return ::std::task::Poll::Ready(#outcome::#variant(#value)),
                    _ => {}
                }
            },
        )
    });
    let poll = poll_all(count, &start, arms, &quote! { #outcome::Nothing });
    let handlers = select.branches.iter().zip(&variants).map(|(branch, variant)| {
        let (pattern, handler) = (&branch.pattern, &branch.handler);
        quote! { #outcome::#variant(#pattern) => #handler, }
    });
    let otherwise = match &select.otherwise {
        Some(expression) => quote! { #expression },
        None => {
            quote! { ::std::panic!("all branches of `select!` are disabled and it has no `else`") }
        }
    };
    quote! {{
        #[allow(non_camel_case_types)]
        enum #outcome<#(#variants),*> { #(#variants(#variants),)* Nothing }
        #[allow(unused_mut)]
        let mut #selected = {
            #(#conditions)*
            #(#pins)*
            #poll.await
        };
        #[allow(unreachable_patterns, clippy::diverging_sub_expression)]
        match #selected {
            #(#handlers)*
            #outcome::Nothing => #otherwise,
            _ => ::std::unreachable!("a value was matched before"),
        }
    }}
}

/// Polls one future if it is there; `ready` is what follows its end.
fn poll_arm(index: usize, future: &Ident, value: &Ident, ready: &TokenStream) -> TokenStream {
    quote! {
        #index => if let ::std::option::Option::Some(future) = #future.as_mut().as_pin_mut() {
            match ::std::future::Future::poll(future, cx) {
                ::std::task::Poll::Pending => waits = true,
                ::std::task::Poll::Ready(#value) => {
                    #future.set(::std::option::Option::None);
                    #ready
                }
            }
        },
    }
}

/// A future that polls all others once in each poll, beginning with number `start` (S5). Its value is `done` when none
/// waits, unless an arm returns another one before.
fn poll_all(
    count: usize,
    start: &TokenStream,
    arms: impl Iterator<Item = TokenStream>,
    done: &TokenStream,
) -> TokenStream {
    quote! {
        ::std::future::poll_fn(|cx| ::filch::sync::__private::poll_counted(cx, |cx| {
            let mut waits = false;
            let mut turn: usize = #start;
            for _ in 0..#count {
                match turn {
                    #(#arms)*
                    _ => ::std::unreachable!(),
                }
                turn = if turn + 1 == #count { 0 } else { turn + 1 };
            }
            if waits {
                return ::std::task::Poll::Pending;
            }
            ::std::task::Poll::Ready(#done)
        }))
    }
}

/// What `join!` and `try_join!` do with a value.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Join {
    All,
    /// The first error ends it.
    Try,
}

pub(crate) fn join(kind: Join, input: TokenStream) -> TokenStream {
    let List { order, futures } = match syn::parse2(input) {
        Ok(list) => list,
        Err(error) => return error.into_compile_error(),
    };
    let count = futures.len();
    if count == 0 {
        let proceed = quote! { ::filch::sync::__private::proceed().await };
        return match kind {
            Join::All => proceed,
            Join::Try => quote! { ::std::result::Result::Ok(#proceed) },
        };
    }
    let (names, outputs) = (numbered("future", count), numbered("output", count));
    let (value, first) = (local("value"), local("first"));
    let arms = (0..count).map(|index| {
        let output = &outputs[index];
        poll_arm(index, &names[index], &value, &match kind {
            Join::All => quote! { #output = ::std::option::Option::Some(#value); },
            Join::Try => quote! {
                match #value {
                    ::std::result::Result::Ok(value) => #output = ::std::option::Option::Some(value),
                    ::std::result::Result::Err(error) => {
                        return ::std::task::Poll::Ready(::std::result::Result::Err(error));
                    }
                }
            },
        })
    });
    let (turns, start) = match order {
        Order::Biased => (quote! {}, quote! { 0 }),
        Order::Fair => (
            quote! { let mut #first: usize = 0; },
            quote! {{
                let start = #first;
                #first = if start + 1 == #count { 0 } else { start + 1 };
                start
            }},
        ),
    };
    let pins = names.iter().zip(&futures).map(|(name, future)| pin(name, future, None));
    let taken = quote! { (#(#outputs.take().expect("polled after it was ready"),)*) };
    let done = match kind {
        Join::All => taken,
        Join::Try => quote! { ::std::result::Result::Ok(#taken) },
    };
    let poll = poll_all(count, &start, arms, &done);
    quote! {{
        #(#pins)*
        #(let mut #outputs = ::std::option::Option::None;)*
        #turns
        #poll.await
    }}
}

#[cfg(test)]
mod tests;
