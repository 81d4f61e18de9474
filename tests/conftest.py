from common_fixtures import data_folder, dimargin, pytest_collection_modifyitems, spark  # noqa: F401
