//! The window: what winit calls, and what a frame is.
//!
//! A1. The pump has what is left of a frame after drawing, and no more: a call never reaches into the next one.
//! A2. After the runtime has stopped, the loop ends; nothing else ends it but an error.

use std::error::Error;
use std::num::NonZero;
use std::rc::Rc;
use std::time::{Duration, Instant};

use filch::{Pump, Pumped};
use softbuffer::{Context, Surface};
use winit::application::ApplicationHandler;
use winit::dpi::PhysicalSize;
use winit::event::{StartCause, WindowEvent};
use winit::event_loop::{ActiveEventLoop, ControlFlow};
use winit::keyboard::{Key, NamedKey};
use winit::window::{Window, WindowId};

use crate::frames::Pace;
use crate::picture::{HEIGHT, WIDTH};
use crate::{Wake, paint};

/// What tasks of this thread may take of a frame. Some 10 ms are for drawing and for the window system.
const BUDGET: Duration = Duration::from_millis(4);

type Shown = Surface<Rc<Window>, Rc<Window>>;

pub struct App {
    pump: Pump,
    pace: Pace,
    last_frame: Option<usize>,
    /// There once the window system has given one.
    shown: Option<Shown>,
    failure: Option<Box<dyn Error>>,
}

impl App {
    pub fn new(pump: Pump, pace: Pace, last_frame: Option<usize>) -> Self {
        Self { pump, pace, last_frame, shown: None, failure: None }
    }

    /// What is left when the loop has ended.
    pub fn end(self) -> Result<(Pump, Pace), Box<dyn Error>> {
        match self.failure {
            Some(failure) => Err(failure),
            None => Ok((self.pump, self.pace)),
        }
    }

    /// Lends the thread to the hive (A1, A2).
    fn lend(&mut self, event_loop: &ActiveEventLoop) {
        let left = self.pace.due().saturating_duration_since(Instant::now());
        // What is left is heard of again: the pump asks for another turn.
        if self.pump.run(BUDGET.min(left)) == Pumped::Stopped {
            event_loop.exit();
        }
    }

    /// Begins a frame if one is due.
    fn begin_if_due(&mut self, event_loop: &ActiveEventLoop) {
        if !self.pace.begin(Instant::now()) {
            return;
        }
        if self.last_frame.is_some_and(|last| self.pace.frames() >= last) {
            self.pump.handle().request_stop();
        }
        self.lend(event_loop);
        if let Some(shown) = &self.shown {
            shown.window().request_redraw();
        }
    }

    fn open(event_loop: &ActiveEventLoop) -> Result<Shown, Box<dyn Error>> {
        let size = PhysicalSize::new(WIDTH as u32, HEIGHT as u32);
        let attributes = Window::default_attributes().with_title("filch").with_inner_size(size);
        let window = Rc::new(event_loop.create_window(attributes.with_resizable(false))?);
        Ok(Surface::new(&Context::new(window.clone())?, window)?)
    }

    /// Shows the picture, and below it how late the last frames were.
    fn draw(&mut self) -> Result<(), Box<dyn Error>> {
        let Some(shown) = &mut self.shown else { return Ok(()) };
        let size = shown.window().inner_size();
        let (Some(width), Some(height)) = (NonZero::new(size.width), NonZero::new(size.height))
        else {
            return Ok(());
        };
        shown.resize(width, height)?;
        let mut buffer = shown.buffer_mut()?;
        paint::show(&mut buffer, size.width as usize, &self.pace);
        buffer.present()?;
        self.pace.end(Instant::now());
        Ok(())
    }

    fn fail(&mut self, event_loop: &ActiveEventLoop, failure: Box<dyn Error>) {
        self.failure.get_or_insert(failure);
        event_loop.exit();
    }
}

impl ApplicationHandler<Wake> for App {
    fn resumed(&mut self, event_loop: &ActiveEventLoop) {
        if self.shown.is_some() {
            return;
        }
        match Self::open(event_loop) {
            Ok(shown) => {
                self.shown = Some(shown);
                self.pace = Pace::new(Instant::now());
            }
            Err(failure) => self.fail(event_loop, failure),
        }
    }

    fn new_events(&mut self, event_loop: &ActiveEventLoop, cause: StartCause) {
        if matches!(cause, StartCause::ResumeTimeReached { .. }) {
            self.begin_if_due(event_loop);
        }
    }

    fn user_event(&mut self, event_loop: &ActiveEventLoop, Wake: Wake) {
        self.lend(event_loop);
    }

    fn window_event(&mut self, event_loop: &ActiveEventLoop, _: WindowId, event: WindowEvent) {
        match event {
            WindowEvent::CloseRequested => self.pump.handle().request_stop(),
            WindowEvent::KeyboardInput { event, .. }
                if event.logical_key == Key::Named(NamedKey::Escape) =>
            {
                self.pump.handle().request_stop();
            }
            WindowEvent::RedrawRequested => {
                if let Err(failure) = self.draw() {
                    self.fail(event_loop, failure);
                }
            }
            _ => {}
        }
    }

    fn about_to_wait(&mut self, event_loop: &ActiveEventLoop) {
        self.begin_if_due(event_loop);
        event_loop.set_control_flow(ControlFlow::WaitUntil(self.pace.due()));
    }
}
