"""What workers say of their health, and the document made from it."""
