"""What a protocol still does and keeps when there is nothing left to do."""
