//! The picture: views of the Mandelbrot set, each nearer than the one before, in tiles.
//!
//! I1. A view is shown as what the one before has become when it is seen from nearer, until its own tiles
//!     replace that one by one. Tiles that come before their view is shown wait for it.
//! I2. Tiles are handed out without end: of the next view while some of this one are under way.

use std::collections::VecDeque;

use filch::par::prelude::*;

pub const WIDTH: usize = 640;
pub const HEIGHT: usize = 480;

/// Pixels of a side of a tile; a divisor of both sides of the picture.
const TILE: usize = 32;
const TILES: usize = (WIDTH / TILE) * (HEIGHT / TILE);
const _: () = assert!(WIDTH.is_multiple_of(TILE) && HEIGHT.is_multiple_of(TILE));

/// Where all views look.
const CENTRE: (f64, f64) = (-0.743_643_887_037_151, 0.131_825_904_205_33);

/// Width of the first view.
const WIDE: f64 = 3.2;

/// How much nearer each view is than the one before.
const NEARER: f64 = 1.25;

/// Views before the first comes again: nearer ones have no more digits.
const VIEWS: usize = 120;

/// Steps after which a point is taken to be inside of the set.
const STEPS: u32 = 1_000;

/// A square of a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tile {
    view: usize,
    left: usize,
    top: usize,
}

impl Tile {
    /// In the order of rows, in parallel.
    pub fn compute(self) -> Vec<u32> {
        let mut pixels = vec![0; TILE * TILE];
        pixels.par_chunks_mut(TILE).enumerate().for_each(|(y, row)| {
            for (x, pixel) in row.iter_mut().enumerate() {
                *pixel = colour(self.point(x, y));
            }
        });
        pixels
    }

    /// A pixel's place in the plane.
    fn point(self, x: usize, y: usize) -> (f64, f64) {
        let pixel = WIDE / NEARER.powi((self.view % VIEWS) as i32) / WIDTH as f64;
        let right = (self.left + x) as f64 - WIDTH as f64 / 2.0;
        let down = (self.top + y) as f64 - HEIGHT as f64 / 2.0;
        (CENTRE.0 + right * pixel, CENTRE.1 + down * pixel)
    }
}

/// By how fast the point leaves.
fn colour((a, b): (f64, f64)) -> u32 {
    let (mut x, mut y) = (0.0_f64, 0.0_f64);
    for step in 0..STEPS {
        let (xx, yy) = (x * x, y * y);
        if xx + yy > 64.0 {
            let smooth = f64::from(step) - (xx + yy).ln().log2();
            return shade(smooth);
        }
        (x, y) = (xx - yy + a, 2.0 * x * y + b);
    }
    0
}

/// A colour that goes round as the value grows.
fn shade(value: f64) -> u32 {
    let turn = (value.max(0.0) + 1.0).ln() * 3.0;
    let channel = |phase: f64| (127.5 * (1.0 + (turn + phase).cos())) as u32;
    channel(3.6) << 16 | channel(3.0) << 8 | channel(2.2)
}

pub struct Picture {
    pixels: Vec<u32>,
    /// Which is shown.
    view: usize,
    /// Of the shown view, tiles that have not come.
    missing: usize,
    /// Of later views, tiles that have (I1).
    early: Vec<(Tile, Vec<u32>)>,
    /// Not handed out yet.
    todo: VecDeque<Tile>,
    /// The view of those that are handed out next.
    next_view: usize,
    tiles: usize,
}

impl Picture {
    pub fn new() -> Self {
        let pixels = vec![0; WIDTH * HEIGHT];
        let (early, todo) = (Vec::new(), VecDeque::new());
        Self { pixels, view: 0, missing: TILES, early, todo, next_view: 0, tiles: 0 }
    }

    /// A tile to compute (I2).
    pub fn next_tile(&mut self) -> Tile {
        if self.todo.is_empty() {
            self.todo.extend(from_the_centre(self.next_view));
            self.next_view += 1;
        }
        self.todo.pop_front().expect("a view has tiles")
    }

    /// Takes what a tile has become.
    pub fn put(&mut self, tile: Tile, pixels: Vec<u32>) {
        self.tiles += 1;
        if tile.view != self.view {
            return self.early.push((tile, pixels));
        }
        self.copy(tile, &pixels);
        while self.missing == 0 {
            self.go_nearer();
        }
    }

    fn copy(&mut self, tile: Tile, pixels: &[u32]) {
        for (y, row) in pixels.chunks_exact(TILE).enumerate() {
            let start = (tile.top + y) * WIDTH + tile.left;
            self.pixels[start..start + TILE].copy_from_slice(row);
        }
        self.missing -= 1;
    }

    /// Shows the next view (I1).
    fn go_nearer(&mut self) {
        self.view += 1;
        self.missing = TILES;
        if !self.view.is_multiple_of(VIEWS) {
            self.pixels = magnified(&self.pixels);
        }
        let view = self.view;
        let now = self.early.extract_if(.., |(tile, _)| tile.view == view).collect::<Vec<_>>();
        now.into_iter().for_each(|(tile, pixels)| self.copy(tile, &pixels));
    }

    pub fn rows(&self) -> impl Iterator<Item = &[u32]> {
        self.pixels.chunks_exact(WIDTH)
    }

    /// How many tiles have come.
    pub fn tiles(&self) -> usize {
        self.tiles
    }

    /// How many views are complete.
    pub fn pictures(&self) -> usize {
        self.view
    }
}

/// What a picture becomes when it is seen from nearer. It is made within a frame, so each column's place is
/// computed once.
fn magnified(pixels: &[u32]) -> Vec<u32> {
    let place = |at: usize, side: usize| {
        let middle = side as f64 / 2.0;
        (middle + (at as f64 - middle) / NEARER) as usize
    };
    let columns: Vec<usize> = (0..WIDTH).map(|x| place(x, WIDTH)).collect();
    let mut nearer = Vec::with_capacity(pixels.len());
    for y in 0..HEIGHT {
        let row = &pixels[place(y, HEIGHT) * WIDTH..][..WIDTH];
        nearer.extend(columns.iter().map(|&x| row[x]));
    }
    nearer
}

/// The tiles of a view, the middle first.
fn from_the_centre(view: usize) -> Vec<Tile> {
    let tile =
        |at| Tile { view, left: at % (WIDTH / TILE) * TILE, top: at / (WIDTH / TILE) * TILE };
    let mut tiles: Vec<_> = (0..TILES).map(tile).collect();
    let away = |at: usize, side: usize| (at + TILE / 2).abs_diff(side / 2).pow(2);
    tiles.sort_by_key(|tile| away(tile.left, WIDTH) + away(tile.top, HEIGHT));
    tiles
}

#[cfg(test)]
mod tests {
    use super::{CENTRE, HEIGHT, Picture, TILE, TILES, Tile, WIDTH, colour};
    use std::collections::HashSet;

    #[test]
    fn every_tile_of_a_view_is_handed_out_before_one_of_the_next() {
        let mut picture = Picture::new();
        let mut view = || -> HashSet<_> {
            (0..TILES).map(|_| picture.next_tile()).map(|tile| (tile.left, tile.top)).collect()
        };
        let expected: HashSet<_> = (0..WIDTH)
            .step_by(TILE)
            .flat_map(|left| (0..HEIGHT).step_by(TILE).map(move |top| (left, top)))
            .collect();
        assert_eq!(view(), expected);
        assert_eq!(view(), expected);
    }

    #[test]
    fn a_tile_of_the_next_view_waits_until_that_is_shown() {
        let mut picture = Picture::new();
        let tiles: Vec<Tile> = (0..=TILES).map(|_| picture.next_tile()).collect();
        let place = tiles[TILES].top * WIDTH + tiles[TILES].left;
        picture.put(tiles[TILES], vec![7; TILE * TILE]);
        assert_eq!(picture.pixels[place], 0);
        for &tile in &tiles[..TILES] {
            assert_eq!(picture.pictures(), 0);
            picture.put(tile, vec![1; TILE * TILE]);
        }
        assert_eq!((picture.pictures(), picture.missing), (1, TILES - 1));
        assert_eq!(picture.pixels[place], 7);
        assert!(picture.pixels.iter().all(|&pixel| pixel == 1 || pixel == 7));
    }

    #[test]
    fn points_of_the_set_are_black_and_others_are_not() {
        assert_eq!(colour((0.0, 0.0)), 0);
        assert_ne!(colour((1.0, 1.0)), 0);
        let tile = Tile { view: 0, left: WIDTH / 2, top: HEIGHT / 2 };
        assert_eq!(tile.point(0, 0), CENTRE);
        assert_eq!(tile.compute().len(), TILE * TILE);
    }
}
