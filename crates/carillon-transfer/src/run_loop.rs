//! The event loop that runs every end of a transfer: step, note changes, obey the caller.

use carillon_core::Duration;
use carillon_net::DriveError;

/// An end of a transfer that the loop can run.
pub trait Run {
    /// Waits at most `wait` for the next event and handles it.
    fn step(&mut self, wait: Duration) -> Result<(), DriveError>;
    /// Maximum wait of a step.
    fn max_wait(&self) -> Duration {
        Duration::MAX
    }
    /// Updates the state after a step.
    fn update(&mut self);
    /// Returns true when no work is left.
    fn is_over(&self) -> bool;
    /// Returns true if other members may still have to be notified after the end.
    fn needs_final_step(&self) -> bool;
    /// Ends the run in order and notifies the other members of the reason.
    fn quit(&mut self, reason: &str);
}

/// The caller's decision after each step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunControl {
    /// Continue.
    Continue,
    /// End and notify the other members of the reason. Repeating it has no effect.
    Quit(&'static str),
    /// Return at once without notifying any member.
    Drop,
}

/// Runs until the end or until `turn` returns [`RunControl::Drop`]. `turn` is called after each step, at least ten
/// times a second.
pub fn run_to_end<R: Run, E: From<DriveError>>(
    run: &mut R,
    turn: impl FnMut(&mut R) -> Result<RunControl, E>,
) -> Result<(), E> {
    run_to_end_within(run, MAX_STEP, turn)
}

/// Runs like [`run_to_end`] with steps of at most `longest`, for callers that wake the driver when they have a
/// request.
pub(crate) fn run_to_end_within<R: Run, E: From<DriveError>>(
    run: &mut R,
    longest: Duration,
    mut turn: impl FnMut(&mut R) -> Result<RunControl, E>,
) -> Result<(), E> {
    let mut quitting = false;
    loop {
        run.step(longest.min(run.max_wait()))?;
        run.update();
        match turn(run)? {
            // The run continues after the request until its members are notified.
            RunControl::Quit(reason) if !quitting && !run.is_over() => {
                quitting = true;
                run.quit(reason);
            }
            RunControl::Continue | RunControl::Quit(_) => {}
            RunControl::Drop => return Ok(()),
        }
        if run.is_over() {
            if run.needs_final_step() {
                // One step sends the final notification.
                run.step(Duration::ZERO)?;
                run.update();
            }
            return Ok(());
        }
    }
}

/// Maximum wait of a step without a waker, so that a request to stop is noticed soon.
const MAX_STEP: Duration = Duration::from_millis(100);
/// Maximum wait of a step where a waker signals every request.
pub(crate) const UNLIMITED_STEP: Duration = Duration::from_secs(3600);

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Script {
        steps: u32,
        quits: Vec<String>,
        over: bool,
        last_words: bool,
        ends_when_asked: bool,
    }

    impl Run for Script {
        fn step(&mut self, _: Duration) -> Result<(), DriveError> {
            self.steps += 1;
            Ok(())
        }
        fn update(&mut self) {
            self.over |= self.steps >= 10;
        }
        fn is_over(&self) -> bool {
            self.over
        }
        fn needs_final_step(&self) -> bool {
            self.last_words
        }
        fn quit(&mut self, reason: &str) {
            self.quits.push(reason.to_owned());
            self.over = self.ends_when_asked;
        }
    }

    fn run(mut script: Script, wish: impl Fn(u32) -> RunControl) -> Script {
        run_to_end(&mut script, |run| Ok::<_, DriveError>(wish(run.steps))).expect("no step fails");
        script
    }

    #[test]
    fn quit_is_requested_once_and_the_run_completes() {
        let ended = run(Script::default(), |_| RunControl::Quit("why"));
        assert_eq!((ended.steps, ended.quits), (10, vec!["why".to_owned()]));
    }

    #[test]
    fn final_messages_take_one_more_step() {
        let script = Script { last_words: true, ends_when_asked: true, ..Script::default() };
        let ended =
            run(script, |steps| if steps == 3 { RunControl::Quit("why") } else { RunControl::Continue });
        assert_eq!(ended.steps, 4);
    }

    #[test]
    fn dropped_run_takes_no_further_step() {
        assert_eq!(
            run(Script::default(), |steps| if steps == 3 { RunControl::Drop } else { RunControl::Continue })
                .steps,
            3
        );
    }
}
