//! Owned handles over AWS-LC pointers, and the error queue. The only file that names `aws_lc_sys` types across modules.
