//! Painters: tasks of the window's thread that have tiles computed and put them where they are shown.
//!
//! W1. The picture belongs to the thread of the window: painters are pinned to it, and a frame is drawn there.
//!     Nobody keeps it over an await.

use std::cell::RefCell;
use std::time::Duration;

use crate::frames::Pace;
use crate::picture::{HEIGHT, Picture, WIDTH};

thread_local! {
    /// W1.
    static PICTURE: RefCell<Picture> = RefCell::new(Picture::new());
}

/// Rows below 1 ms in the graph of late frames.
const ROWS_A_MS: usize = 24;

/// Rows of that graph.
const GRAPH: usize = 2 * ROWS_A_MS;

/// Steps of the mark that moves by one with each frame: what stutters is seen.
const MARK: usize = 8;

const WHITE: u32 = 0x00ff_ffff;
const GREEN: u32 = 0x0040_c060;
const RED: u32 = 0x00f0_4040;

/// Has tile after tile computed, for ever.
pub async fn paint() {
    loop {
        let tile = PICTURE.with_borrow_mut(Picture::next_tile);
        let pixels = filch::cpu(move || tile.compute()).await;
        PICTURE.with_borrow_mut(|picture| picture.put(tile, pixels));
    }
}

/// What was painted in so much time.
pub fn describe(elapsed: Duration) -> String {
    PICTURE.with_borrow(|picture| {
        let (tiles, pictures) = (picture.tiles(), picture.pictures());
        let rate = tiles as f64 / elapsed.as_secs_f64();
        format!("{tiles} tiles of {pictures} pictures, {rate:.0} a second,")
    })
}

/// Draws the picture and the pace of frames into a window with rows of this many pixels.
pub fn show(window: &mut [u32], width: usize, pace: &Pace) {
    PICTURE.with_borrow(|picture| {
        for (to, from) in window.chunks_exact_mut(width).zip(picture.rows()) {
            let common = to.len().min(from.len());
            to[..common].copy_from_slice(&from[..common]);
        }
    });
    let mut dot = |x: usize, y: usize, colour| {
        if x < width
            && let Some(pixel) = window.get_mut(y * width + x)
        {
            *pixel = colour;
        }
    };
    for (x, late) in (0..WIDTH).rev().zip(pace.late()) {
        let rows = (late.as_secs_f64() * 1e3 * ROWS_A_MS as f64) as usize;
        let colour = if rows > ROWS_A_MS { RED } else { GREEN };
        (0..=rows.min(GRAPH)).for_each(|row| dot(x, HEIGHT - 1 - row, colour));
        if x % 4 == 0 {
            dot(x, HEIGHT - 1 - ROWS_A_MS, WHITE);
        }
    }
    let mark = pace.frames() * MARK % WIDTH;
    for (x, y) in (0..MARK).flat_map(|x| (0..MARK).map(move |y| (x, y))) {
        dot((mark + x) % WIDTH, y, WHITE);
    }
}
