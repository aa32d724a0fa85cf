//! Outputs: what nodes returned in one run, side by side in one piece of memory.
//!
//! O1. Every node that returns something has a cell, whose offset is the same in each run and whose type is
//!     that of its handle.
//! O2. A cell's state says whether it holds a value, how many read it and whether somebody writes. Where no node can run
//!     twice in a run, the order of the nodes alone keeps writer and readers apart; elsewhere the state does,
//!     and who comes at the wrong time is refused.
//! O3. A value is dropped once: by who takes it, by the value that replaces it, or with the run.
//!
//! Not here: `()`, which is not stored: anybody may make one out of nothing. Of other values without bytes nobody may: one that
//! was not returned, or that somebody has, is none.

use std::alloc::{self, Layout};
use std::any::TypeId;
use std::marker::PhantomData;
use std::mem::{self, MaybeUninit, needs_drop};
use std::ptr::NonNull;

use crate::base::shim::{AtomicU32, Ordering, UnsafeCell};

const FULL: u32 = 1;
const WRITING: u32 = 2;
const READER: u32 = 4;

/// How the nodes of a plan may meet at a cell (O2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// Never: every node runs once.
    Ordered,
    /// A node may run again while another reads what it returned before.
    Guarded,
}

/// Why a cell gives or takes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// There is no value.
    Empty,
    /// Somebody else is at it.
    Busy,
}

#[repr(C)]
struct Cell<T> {
    state: AtomicU32,
    value: UnsafeCell<MaybeUninit<T>>,
}

/// Whether values of the type are stored at all: all but `()`. Known to the compiler.
#[inline(always)]
pub(super) fn is_stored<T>() -> bool {
    size_of::<T>() > 0 || needs_drop::<T>() || !is_unit::<T>()
}

/// Whether the type is `()`, which has no lifetimes: so it does not matter that those of `T` are taken for `'static`.
#[inline(always)]
fn is_unit<T>() -> bool {
    trait Tell {
        fn type_id(&self) -> TypeId
        where
            Self: 'static;
    }

    impl<T> Tell for PhantomData<T> {
        #[inline(always)]
        fn type_id(&self) -> TypeId
        where
            Self: 'static,
        {
            TypeId::of::<T>()
        }
    }

    let tell: &dyn Tell = &PhantomData::<T>;
    // SAFETY: a bound alone changes, and the method reads nothing that could be gone.
    let tell: &(dyn Tell + 'static) = unsafe { mem::transmute(tell) };
    tell.type_id() == TypeId::of::<()>()
}

/// The cells of a graph, while it is built.
#[derive(Default)]
pub(super) struct Cells {
    size: usize,
    align: usize,
    drops: Vec<(u32, DropFn)>,
}

type DropFn = unsafe fn(NonNull<u8>);

impl Cells {
    /// The offset of a new cell for a `T`.
    pub(super) fn add<T>(&mut self) -> u32 {
        if !is_stored::<T>() {
            return u32::MAX;
        }
        let layout = Layout::new::<Cell<T>>();
        let offset = self.size.next_multiple_of(layout.align());
        self.size = offset + layout.size();
        self.align = self.align.max(layout.align());
        let offset = u32::try_from(offset).expect("the outputs of a graph fit into 4 GiB");
        self.drops.push((offset, clear::<T>));
        offset
    }

    fn layout(&self) -> Option<Layout> {
        if self.size == 0 {
            return None;
        }
        Some(Layout::from_size_align(self.size, self.align).expect("each part was a layout"))
    }
}

/// Empties a cell.
///
/// # Safety
/// `cell` is one of a `T`, and nobody else is at it.
unsafe fn clear<T>(cell: NonNull<u8>) {
    // SAFETY: by the caller's promise.
    let cell = unsafe { cell.cast::<Cell<T>>().as_ref() };
    // ORDERING: Relaxed, nobody else is at it.
    if cell.state.load(Ordering::Relaxed) & FULL == 0 {
        return;
    }
    // ORDERING: Relaxed, as above. Before the drop, which may panic.
    cell.state.store(0, Ordering::Relaxed);
    // SAFETY: it was full, and is ours (O3).
    cell.value.with_mut(|value| unsafe { value.cast::<T>().drop_in_place() });
}

/// The outputs of one run.
pub(super) struct Outputs {
    memory: Option<(NonNull<u8>, Layout)>,
}

impl Outputs {
    pub(super) fn new(cells: &Cells) -> Self {
        let memory = cells.layout().map(|layout| {
            // SAFETY: the size is not zero. Zero is an empty cell's state.
            let memory = unsafe { alloc::alloc_zeroed(layout) };
            let Some(memory) = NonNull::new(memory) else { alloc::handle_alloc_error(layout) };
            (memory, layout)
        });
        Self { memory }
    }

    /// Drops all values.
    ///
    /// # Safety
    /// No node of the run is at work, and `cells` is what the outputs were made for.
    pub(super) unsafe fn clear(&self, cells: &Cells) {
        let Some((memory, _)) = self.memory else { return };
        for &(offset, drop) in &cells.drops {
            // SAFETY: O1, inside of the memory.
            let cell = unsafe { memory.add(offset as usize) };
            // SAFETY: O1, and by the caller's promise.
            crate::task::group::guard_user_code(|| unsafe { drop(cell) });
        }
    }

    /// # Safety
    /// `offset` is that of a cell for a `T` (O1), which is stored.
    unsafe fn cell<T>(&self, offset: u32) -> &Cell<T> {
        let (memory, _) = self.memory.expect("O1: somebody has a cell");
        // SAFETY: O1, inside of the memory.
        let cell = unsafe { memory.add(offset as usize) };
        // SAFETY: O1, of this type.
        unsafe { cell.cast().as_ref() }
    }

    /// Stores what a node returned.
    ///
    /// # Safety
    /// `offset` is that of a cell for a `T` (O1). Where access is ordered, nobody else is at the cell.
    #[inline]
    pub(super) unsafe fn store<T>(
        &self,
        offset: u32,
        value: T,
        access: Access,
    ) -> Result<(), Refusal> {
        if !is_stored::<T>() {
            return Ok(());
        }
        // SAFETY: by the caller's promise.
        let cell = unsafe { self.cell::<T>(offset) };
        if access == Access::Ordered {
            cell.value.with_mut(|place| {
                // SAFETY: by the caller's promise; empty, because the node runs once and runs clear.
                unsafe { (*place).write(value) };
            });
            // ORDERING: Relaxed, the edges order it before its readers.
            cell.state.store(FULL, Ordering::Relaxed);
            return Ok(());
        }
        // ORDERING: Relaxed, a guess for the exchange.
        let before = cell.state.load(Ordering::Relaxed) & FULL;
        // ORDERING: Acquire pairs with the Release of readers that have gone.
        cell.state
            .compare_exchange(before, before | WRITING, Ordering::Acquire, Ordering::Relaxed)
            .map_err(|_| Refusal::Busy)?;
        // SAFETY: O2, WRITING is ours.
        let old = cell.value.with_mut(|place| unsafe { place.replace(MaybeUninit::new(value)) });
        // ORDERING: Release pairs with the Acquire of readers.
        cell.state.store(FULL, Ordering::Release);
        if before == FULL {
            // SAFETY: it was full (O3).
            drop(unsafe { old.assume_init() });
        }
        Ok(())
    }

    /// Calls `f` with what a node returned.
    ///
    /// # Safety
    /// As for [`Outputs::store`]; where access is ordered, nobody writes.
    pub(super) unsafe fn borrow<T>(&self, offset: u32, access: Access) -> Result<&T, Refusal> {
        if !is_stored::<T>() {
            // SAFETY: it is `()`.
            return Ok(unsafe { NonNull::<T>::dangling().as_ref() });
        }
        // SAFETY: by the caller's promise.
        let cell = unsafe { self.cell::<T>(offset) };
        // ORDERING: Acquire pairs with the Release in `store`.
        let mut state = cell.state.load(Ordering::Acquire);
        loop {
            if state & WRITING != 0 {
                return Err(Refusal::Busy);
            }
            if state & FULL == 0 {
                return Err(Refusal::Empty);
            }
            if access == Access::Ordered {
                break;
            }
            // ORDERING: Acquire, as above.
            let next = cell.state.compare_exchange_weak(
                state,
                state + READER,
                Ordering::Acquire,
                Ordering::Acquire,
            );
            match next {
                Ok(_) => break,
                Err(now) => state = now,
            }
        }
        // SAFETY: O2, full, and nobody writes while we are counted or by order.
        Ok(cell.value.with(|place| unsafe { &*place.cast::<T>() }))
    }

    /// Ends a [`Outputs::borrow`] that was guarded.
    ///
    /// # Safety
    /// As for [`Outputs::borrow`], which succeeded, and whose reference is not used any more.
    pub(super) unsafe fn unborrow<T>(&self, offset: u32) {
        if is_stored::<T>() {
            // SAFETY: by the caller's promise.
            let cell = unsafe { self.cell::<T>(offset) };
            // ORDERING: Release pairs with the Acquire in `store` and `take`.
            cell.state.fetch_sub(READER, Ordering::Release);
        }
    }

    /// What a node returned, for as long as nobody clears the outputs: it cannot be taken any more. One mark does for any number of
    /// looks, so it cannot overflow.
    ///
    /// # Safety
    /// `offset` is that of a cell for a `T` (O1). The run is over, and its outputs are the caller's.
    pub(super) unsafe fn look<T>(&self, offset: u32) -> Option<&T> {
        if is_stored::<T>() {
            // SAFETY: by the caller's promise.
            let cell = unsafe { self.cell::<T>(offset) };
            // ORDERING: Relaxed, the outputs are the caller's.
            if cell.state.load(Ordering::Relaxed) & FULL == 0 {
                return None;
            }
            // ORDERING: as above.
            cell.state.store(FULL + READER, Ordering::Relaxed);
        }
        // SAFETY: by the caller's promise; full, or not stored, and nobody writes.
        unsafe { self.borrow(offset, Access::Ordered) }.ok()
    }

    /// Moves out what a node returned.
    ///
    /// # Safety
    /// As for [`Outputs::store`].
    pub(super) unsafe fn take<T>(&self, offset: u32) -> Result<T, Refusal> {
        if !is_stored::<T>() {
            // SAFETY: it is `()`.
            return Ok(unsafe { NonNull::<T>::dangling().read() });
        }
        // SAFETY: by the caller's promise.
        let cell = unsafe { self.cell::<T>(offset) };
        // ORDERING: Acquire pairs with the Release in `store` and `unborrow`.
        let taken =
            cell.state.compare_exchange(FULL, WRITING, Ordering::Acquire, Ordering::Relaxed);
        match taken {
            Ok(_) => {}
            Err(0) => return Err(Refusal::Empty),
            Err(_) => return Err(Refusal::Busy),
        }
        // SAFETY: O2, WRITING is ours, and it was full.
        let value = cell.value.with_mut(|place| unsafe { place.cast::<T>().read() });
        // ORDERING: Release pairs with the Acquire of the next.
        cell.state.store(0, Ordering::Release);
        Ok(value)
    }
}

impl Drop for Outputs {
    fn drop(&mut self) {
        if let Some((memory, layout)) = self.memory {
            // SAFETY: allocated with this layout; the values are gone.
            unsafe { alloc::dealloc(memory.as_ptr(), layout) };
        }
    }
}
