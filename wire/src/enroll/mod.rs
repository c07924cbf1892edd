//! Enrolment.
