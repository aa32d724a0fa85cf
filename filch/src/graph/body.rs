//! Bodies: what a node runs, behind a data pointer and a function, both of which a plan copies.
//!
//! B1. A body is called by any number of threads at once (runs of one graph may overlap), so it is `Sync`.
//! B2. It is dropped once, with the graph or when the node is erased or filled anew.
//! B3. Closures of nodes lie side by side in chunks that the graph keeps until its end (`Arena`), in the order in which they were made, which is
//!     often that of a run. What a node is filled with later has a box, because that can happen any number of times.
//!
//! Not here: when it is called (`work`).

use std::alloc::{self, Layout};
use std::marker::PhantomData;
use std::ptr::NonNull;

use super::work::Hand;

/// What a node asks for at its end.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// All successors get their token.
    Done,
    /// Of the successors of a condition, this one is run; none if there are not so many.
    Pick(u32),
    /// The body has left more in its [`Hand`]: an error, several successors.
    Told,
    /// The node goes on elsewhere; a [`super::work::Held`] ends it.
    Held,
}

pub(super) type CallFn = unsafe fn(NonNull<()>, &Hand<'_>) -> Step;

struct Vtable {
    call: CallFn,
    drop: unsafe fn(NonNull<()>),
}

/// A closure of a node, of which the type is forgotten.
pub struct Body<'env> {
    data: NonNull<()>,
    vtable: &'static Vtable,
    life: PhantomData<Box<dyn Fn() + Send + Sync + 'env>>,
}

// SAFETY: made from a closure that is `Send`.
unsafe impl Send for Body<'_> {}
// SAFETY: made from a closure that is `Sync`.
unsafe impl Sync for Body<'_> {}

impl<'env> Body<'env> {
    /// A body in `arena`.
    ///
    /// # Safety
    /// The arena outlives the body.
    #[inline]
    pub(super) unsafe fn new<F>(arena: &mut Arena, f: F) -> Self
    where
        F: Fn(&Hand<'_>) -> Step + Send + Sync + 'env,
    {
        let data = arena.take(Layout::new::<F>()).cast::<F>();
        // SAFETY: fresh, and of this layout.
        unsafe { data.write(f) };
        let vtable = const { &Vtable { call: call::<F>, drop: drop_in_place::<F> } };
        Self { data: data.cast(), vtable, life: PhantomData }
    }

    /// A body in a box.
    pub(super) fn boxed<F>(f: F) -> Self
    where
        F: Fn(&Hand<'_>) -> Step + Send + Sync + 'env,
    {
        let data = NonNull::from(Box::leak(Box::new(f))).cast();
        let vtable = const { &Vtable { call: call::<F>, drop: drop_box::<F> } };
        Self { data, vtable, life: PhantomData }
    }

    /// The closure's data and how to call it; good as long as the body is.
    pub(super) fn parts(&self) -> (NonNull<()>, CallFn) {
        (self.data, self.vtable.call)
    }
}

/// # Safety
/// `data` is an `F` that is alive.
unsafe fn call<F: Fn(&Hand<'_>) -> Step>(data: NonNull<()>, with: &Hand<'_>) -> Step {
    // SAFETY: by the caller's promise.
    let f = unsafe { data.cast::<F>().as_ref() };
    f(with)
}

/// # Safety
/// `data` is an `F`, which the caller gives up.
unsafe fn drop_in_place<F>(data: NonNull<()>) {
    // SAFETY: by the caller's promise.
    unsafe { data.cast::<F>().drop_in_place() };
}

/// # Safety
/// `data` is from a `Box<F>`, which the caller gives up.
unsafe fn drop_box<F>(data: NonNull<()>) {
    // SAFETY: by the caller's promise.
    drop(unsafe { Box::from_raw(data.cast::<F>().as_ptr()) });
}

impl Drop for Body<'_> {
    fn drop(&mut self) {
        // SAFETY: B2, made for this function, and dropped once.
        unsafe { (self.vtable.drop)(self.data) };
    }
}

/// Memory for closures, given back all at once (B3).
#[derive(Default)]
pub(super) struct Arena {
    /// Where the next closure may begin, and where the newest chunk ends.
    free: usize,
    end: usize,
    chunks: Vec<Chunk>,
}

struct Chunk(NonNull<u8>, Layout);

// SAFETY: owned memory without a type.
unsafe impl Send for Chunk {}
// SAFETY: as above.
unsafe impl Sync for Chunk {}

/// Bytes of the first chunk, and of the largest; each is twice the one before. Measured: larger ones come from the system and go back to it, page by page.
const FIRST_CHUNK: usize = 512;
const LARGEST_CHUNK: usize = 1 << 16;

impl Arena {
    /// Fresh memory.
    #[inline]
    fn take(&mut self, layout: Layout) -> NonNull<u8> {
        let at = self.free.next_multiple_of(layout.align());
        if layout.size() > self.end.saturating_sub(at) {
            return self.take_from_new(layout);
        }
        self.free = at + layout.size();
        let chunk = self.chunks.last().map_or(NonNull::dangling(), |chunk| chunk.0);
        // Only what takes no memory finds room where there is no chunk, and it must be aligned, too.
        NonNull::new(chunk.as_ptr().with_addr(at)).unwrap_or_else(|| nowhere(layout))
    }

    #[cold]
    fn take_from_new(&mut self, layout: Layout) -> NonNull<u8> {
        let usual = (FIRST_CHUNK << self.chunks.len().min(32)).min(LARGEST_CHUNK);
        let size = usual.max(layout.size());
        let chunk =
            Layout::from_size_align(size, layout.align().max(16)).expect("a layout and some room");
        // SAFETY: the size is not zero.
        let memory = unsafe { alloc::alloc(chunk) };
        let Some(memory) = NonNull::new(memory) else { alloc::handle_alloc_error(chunk) };
        self.chunks.push(Chunk(memory, chunk));
        self.free = memory.addr().get() + layout.size();
        self.end = memory.addr().get() + size;
        memory
    }
}

/// A place for what takes no memory.
fn nowhere(layout: Layout) -> NonNull<u8> {
    NonNull::new(std::ptr::without_provenance_mut(layout.align()))
        .expect("an alignment is not zero")
}

impl Drop for Chunk {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout by `take_from_new`; B2, the bodies are gone.
        unsafe { alloc::dealloc(self.0.as_ptr(), self.1) };
    }
}
