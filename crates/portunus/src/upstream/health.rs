//! Active health checks.
