"""Slates of many users: an Arrow stream, or a file that can be resumed."""

from shortlist.pipeline.batch.users import Users, read_user_ids, select_users
from shortlist.pipeline.batch.write import Written

__all__ = ["Users", "Written", "read_user_ids", "select_users"]
