"""`lwt.Classifier` and `lwt.Regressor`: fine-tuning with the methods that scikit-learn's estimators have.

    model = lwt.Classifier(epochs=5).fit(texts, labels)
    model.predict_proba(["where is my parcel"])
    model.save("parcels")
    lwt.load("parcels").predict(["where is my parcel"])

They follow scikit-learn's conventions for estimators, so that ``clone``, ``cross_val_score``, ``GridSearchCV`` and a
``Pipeline`` take them, and do not need it. Behind each is an ordinary run, ``experiment_``.
"""
