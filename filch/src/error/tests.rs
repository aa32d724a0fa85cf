use std::{error::Error, io};

use super::{BuildError, ConfigError};

#[test]
fn build_errors_read_as_sentences_without_a_period_and_name_their_source() {
    let config = BuildError::from(ConfigError::new("ring_capacity", "3 is odd"));
    assert_eq!(config.to_string(), "invalid configuration: `ring_capacity`: 3 is odd");
    assert!(config.source().is_some_and(|s| s.is::<ConfigError>()));

    let environment = BuildError::Environment {
        variable: "FILCH_SEED",
        value: "x".to_owned(),
        reason: "is no number".to_owned(),
    };
    let text = "invalid environment variable FILCH_SEED=\"x\": is no number";
    assert_eq!(environment.to_string(), text);
    assert!(environment.source().is_none());

    let source = io::Error::from(io::ErrorKind::WouldBlock);
    let thread = BuildError::Thread { name: "filch-io-0".to_owned(), source };
    assert!(thread.to_string().starts_with("cannot start thread \"filch-io-0\": "));
    assert!(thread.source().is_some_and(|s| s.is::<io::Error>()));
}

#[test]
fn build_error_becomes_an_io_error_of_the_fitting_kind() {
    let config = BuildError::from(ConfigError::new("ring_capacity", "3 is odd"));
    assert_eq!(io::Error::from(config).kind(), io::ErrorKind::InvalidInput);
    let source = io::Error::from(io::ErrorKind::WouldBlock);
    let thread = BuildError::Thread { name: "filch-io-0".to_owned(), source };
    let error = io::Error::from(thread);
    assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    assert!(error.to_string().contains("filch-io-0"));
}
